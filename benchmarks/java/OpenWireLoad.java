import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * The client of ActiveMQ with its defaults as load: one producer, and consumers that count.
 *
 * <p>Arguments: port, process of the broker, consumers, messages of a transaction (0: none), seconds to warm up, seconds
 * to measure, and any of `topic`, `subscribed` (each consumer has a durable subscription), `durable` (messages are
 * persistent) and `sync` (the client's default for persistent messages; without it they are sent as `useAsyncSend` has
 * it). Prints one line of JSON, as openwire_load.py does. Every consumer checks that the producer's messages come once
 * and in order.
 */
public final class OpenWireLoad {
    private static final int AHEAD = 2000;
    private static final double NANOS = 1e9;
    private static final int TICKS_A_SECOND = 100;
    private static final long END_MS = 30_000;

    private final AtomicBoolean ends = new AtomicBoolean();
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private final AtomicLong delivered = new AtomicLong();
    private final Semaphore room;
    private final int consumers;
    private final int batch;
    private volatile long sent;

    private OpenWireLoad(int consumers, int batch) {
        this.consumers = consumers;
        this.batch = batch;
        this.room = new Semaphore(AHEAD * consumers);
    }

    public static void main(String[] arguments) throws Exception {
        int consumers = Integer.parseInt(arguments[2]);
        new OpenWireLoad(consumers, Integer.parseInt(arguments[3])).run(arguments);
    }

    private void run(String[] arguments) throws Exception {
        Set<String> flags = Set.of(Arrays.copyOfRange(arguments, 6, arguments.length));
        String url = "tcp://127.0.0.1:" + arguments[0];
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(url);
        factory.setUseAsyncSend(!flags.contains("sync"));
        List<Connection> connections = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        String name = "java-load-" + ProcessHandle.current().pid();
        for (int number = 0; number <= consumers; number++) {
            Connection connection = factory.createConnection();
            connection.setClientID(name + "-" + number);
            connections.add(connection);
            boolean isTransacted = batch > 0;
            Session session = connection.createSession(
                    isTransacted, isTransacted ? Session.SESSION_TRANSACTED : Session.AUTO_ACKNOWLEDGE);
            Destination destination =
                    flags.contains("topic") ? session.createTopic(name) : session.createQueue(name);
            if (number < consumers) {
                MessageConsumer consumer = flags.contains("subscribed")
                        ? session.createDurableSubscriber((Topic) destination, name + "-" + number)
                        : session.createConsumer(destination);
                threads.add(new Thread(() -> guard(() -> consume(session, consumer))));
            } else {
                MessageProducer producer = session.createProducer(destination);
                producer.setDeliveryMode(
                        flags.contains("durable") ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT);
                threads.add(new Thread(() -> guard(() -> produce(session, producer))));
            }
            connection.start();
        }
        threads.forEach(Thread::start);
        Thread.sleep((long) (Double.parseDouble(arguments[4]) * 1000));
        Path broker = Path.of("/proc", arguments[1], "stat");
        Path own = Path.of("/proc/self/stat");
        long start = System.nanoTime();
        long count = delivered.get();
        double cpu = cpuSeconds(broker);
        double ownCpu = cpuSeconds(own);
        Thread.sleep((long) (Double.parseDouble(arguments[5]) * 1000));
        double elapsed = (System.nanoTime() - start) / NANOS;
        cpu = cpuSeconds(broker) - cpu;
        ownCpu = cpuSeconds(own) - ownCpu;
        count = Math.max(delivered.get() - count, 1);
        ends.set(true);
        for (Thread thread : threads) {
            thread.join(END_MS);
        }
        if (failure.get() != null || delivered.get() != sent * consumers) {
            System.err.println(delivered.get() + " of " + sent * consumers + " messages came: " + failure.get());
            System.exit(1);
        }
        unsubscribe(flags, connections, url);
        System.out.printf(
                "{\"cpu_us\": %f, \"client_us\": %f, \"per_s\": %f}%n",
                cpu / count * 1e6, ownCpu / count * 1e6, count / elapsed);
        System.exit(0);
    }

    private void unsubscribe(Set<String> flags, List<Connection> connections, String url)
            throws Exception {
        for (Connection connection : connections.subList(0, flags.contains("subscribed") ? consumers : 0)) {
            String id = connection.getClientID();
            connection.close();
            Connection again = new ActiveMQConnectionFactory(url).createConnection();
            again.setClientID(id);
            again.createSession(false, Session.AUTO_ACKNOWLEDGE).unsubscribe(id);
            again.close();
        }
    }

    private interface Work {
        void run() throws Exception;
    }

    private void guard(Work work) {
        try {
            work.run();
        } catch (Exception | Error error) {
            failure.compareAndSet(null, error);
            ends.set(true);
        }
    }

    private void produce(Session session, MessageProducer producer) throws Exception {
        byte[] body = new byte[100];
        long number = 0;
        // A transaction is always finished, so that nothing is left in the end.
        while (!ends.get() || (batch > 0 && number % batch != 0)) {
            room.acquire(consumers);
            BytesMessage message = session.createBytesMessage();
            message.writeBytes(body);
            message.setJMSCorrelationID(Long.toString(number));
            producer.send(message);
            number++;
            if (batch > 0 && number % batch == 0) {
                session.commit();
            }
        }
        sent = number;
    }

    private void consume(Session session, MessageConsumer consumer) throws Exception {
        long number = 0;
        long deadline = Long.MAX_VALUE;
        while (System.currentTimeMillis() < deadline && failure.get() == null) {
            javax.jms.Message message = consumer.receive(100);
            if (ends.get() && deadline == Long.MAX_VALUE) {
                deadline = System.currentTimeMillis() + END_MS / 2;
            }
            if (message == null) {
                if (ends.get() && number == sent) {
                    break;
                }
                continue;
            }
            if (!message.getJMSCorrelationID().equals(Long.toString(number))) {
                throw new IllegalStateException(message.getJMSCorrelationID() + " where " + number + " was due");
            }
            number++;
            if (batch > 0 && number % batch == 0) {
                session.commit();
            }
            delivered.incrementAndGet();
            room.release();
        }
    }

    private static double cpuSeconds(Path stat) throws Exception {
        String text = Files.readString(stat);
        String[] fields = text.substring(text.lastIndexOf(')') + 2).split(" ");
        return (Double.parseDouble(fields[11]) + Double.parseDouble(fields[12])) / TICKS_A_SECOND;
    }
}
