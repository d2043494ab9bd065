package interop;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * Load with the failover transport: one thread sends, another moves messages to a second queue in transactions.
 *
 * <p>It works until its input ends. It prints a line for every ten messages that it has sent, and in the end how many
 * messages it sent, and how many of them are not in the second queue or there more than once. Argument: the URL.
 */
public final class Load {
    private static final String IN = "load.in";
    private static final String OUT = "load.out";
    private static final int BATCH = 5;
    private static final int STEP = 10;

    private final ActiveMQConnectionFactory factory;
    private final AtomicInteger sent = new AtomicInteger();
    private final AtomicInteger inDoubt = new AtomicInteger();
    private volatile boolean stopping;
    private volatile boolean allSent;

    private Load(String url) {
        factory = new ActiveMQConnectionFactory(Site.USER, Site.PASSWORD, url);
        factory.getRedeliveryPolicy().setInitialRedeliveryDelay(0);
        factory.getRedeliveryPolicy().setMaximumRedeliveries(-1);
    }

    public static void main(String[] arguments) throws Exception {
        Load load = new Load(arguments[0]);
        Thread sending = new Thread(() -> load.work(load::send));
        Thread moving = new Thread(() -> load.work(load::move));
        sending.start();
        moving.start();
        while (System.in.read() >= 0) {
            // Only its end means something.
        }
        load.stopping = true;
        sending.join();
        load.allSent = true;
        moving.join();
        System.out.println(load.result());
        System.exit(0);
    }

    private interface Task {
        void run(Connection connection) throws JMSException, InterruptedException;
    }

    private void work(Task task) {
        try {
            Connection connection = factory.createConnection();
            connection.start();
            task.run(connection);
            connection.close();
        } catch (JMSException | InterruptedException failed) {
            failed.printStackTrace();
            System.exit(1);
        }
    }

    private void send(Connection connection) throws JMSException, InterruptedException {
        Session session = Site.auto(connection);
        MessageProducer producer = session.createProducer(session.createQueue(IN));
        while (!stopping) {
            producer.send(session.createTextMessage(String.valueOf(sent.get())));
            if (sent.incrementAndGet() % STEP == 0) {
                System.out.println(sent.get());
            }
            Thread.sleep(2);
        }
    }

    private void move(Connection connection) throws JMSException {
        Session session = Site.transacted(connection);
        MessageConsumer consumer = session.createConsumer(session.createQueue(IN));
        MessageProducer producer = session.createProducer(session.createQueue(OUT));
        boolean isDone = false;
        while (!isDone) {
            boolean wasLast = allSent;
            int moved = 0;
            try {
                Message message = consumer.receive(Site.QUIET_MS);
                while (message != null && moved < BATCH) {
                    producer.send(session.createTextMessage(Site.text(message)));
                    moved++;
                    message = moved < BATCH ? consumer.receive(1) : null;
                }
                session.commit();
                isDone = wasLast && moved == 0;
            } catch (JMSException lost) {
                // Rolled back, or in doubt: what was not moved comes again.
                inDoubt.incrementAndGet();
                session.rollback();
            }
        }
    }

    private String result() throws JMSException {
        Map<String, Integer> counts = new HashMap<>();
        try (Connection connection = factory.createConnection()) {
            connection.start();
            Session session = Site.auto(connection);
            MessageConsumer consumer = session.createConsumer(session.createQueue(OUT));
            for (Message m = consumer.receive(Site.ARRIVES_MS); m != null; m = consumer.receive(Site.QUIET_MS)) {
                counts.merge(Site.text(m), 1, Integer::sum);
            }
        }
        long doubled = counts.values().stream().filter(count -> count > 1).count();
        int missing = sent.get() - counts.size();
        return Json.text(Map.of("sent", sent.get(), "missing", missing, "doubled", doubled, "in doubt", inDoubt.get()));
    }
}
