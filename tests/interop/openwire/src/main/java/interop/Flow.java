package interop;

import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;

/** Windows of consumers and producers, and what a full address does. */
public final class Flow {
    private static final int BODY_SIZE = 4_000;

    /** A consumer without a buffer asks for each message. */
    public void pull(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        Queue pulled = session.createQueue(site.name("queue") + "?consumer.prefetchSize=0");
        MessageConsumer first = session.createConsumer(pulled);
        MessageConsumer second = session.createConsumer(pulled);
        site.see("no wait, empty", Site.text(first.receiveNoWait()));
        long start = System.nanoTime();
        site.see("300 ms, empty", Site.text(first.receive(300)));
        site.see("waited", System.nanoTime() - start >= 290_000_000L);
        Site.send(session, site.queue(session), "1", "2", "3", "4");
        site.see("no wait", Site.text(first.receiveNoWait()));
        site.see("second takes", Site.take(second, 2));
        site.see("with time", Site.next(first));
        site.see("no wait, empty again", Site.text(second.receiveNoWait()));
    }

    public void pullTransacted(Site site) throws Exception {
        ActiveMQConnection connection = site.connect(
                "?jms.prefetchPolicy.queuePrefetch=0&jms.redeliveryPolicy.initialRedeliveryDelay=0");
        Session session = Site.transacted(connection);
        Site.send(Site.auto(connection), site.queue(session), "1", "2");
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        site.see("received", Site.take(consumer, 2));
        session.rollback();
        site.see("after rollback", Site.take(consumer, 2));
        session.commit();
        site.see("after commit", Site.text(consumer.receiveNoWait()));
    }

    /** A consumer that closes while its pull waits leaves nothing behind. */
    public void pullGivenUp(Site site) throws Exception {
        Session session = Site.auto(site.connect("?jms.prefetchPolicy.queuePrefetch=0"));
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        consumer.receive(200);
        consumer.close();
        Site.send(session, site.queue(session), "1");
        site.see("left", site.left(site.name("queue")));
    }

    /** What a consumer holds is not another's, and no more than its window. */
    public void prefetchHoldsBack(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        session.createConsumer(session.createQueue(site.name("queue") + "?consumer.prefetchSize=2"));
        Site.send(session, site.queue(session), "1", "2", "3", "4", "5");
        Thread.sleep(Site.QUIET_MS);
        Session other = Site.auto(connection);
        site.see("another gets", Site.rest(other.createConsumer(site.queue(other))));
    }

    static javax.jms.Message large(Session session) throws javax.jms.JMSException {
        javax.jms.BytesMessage message = session.createBytesMessage();
        message.writeBytes(new byte[BODY_SIZE]);
        return message;
    }

    /** A limit that blocks: sends wait until there is room. Everything arrives. */
    private void fullBlocks(Site site, String options) throws Exception {
        Queue queue;
        AtomicInteger sent = new AtomicInteger();
        ActiveMQConnection sending = site.connect(options);
        Session session = Site.auto(sending);
        queue = session.createQueue("full.block." + site.scenario);
        MessageProducer producer = session.createProducer(queue);
        Thread sender = new Thread(() -> {
            try {
                for (int index = 0; index < 60; index++) {
                    producer.send(large(session));
                    sent.incrementAndGet();
                }
            } catch (javax.jms.JMSException broken) {
                sent.set(-1);
            }
        });
        sender.setDaemon(true);
        sender.start();
        Thread.sleep(1000);
        site.see("sender waits", sent.get() < 60);
        Session reading = Site.auto(site.connect());
        MessageConsumer consumer = reading.createConsumer(queue);
        int received = 0;
        while (received < 60 && consumer.receive(Site.ARRIVES_MS) != null) {
            received++;
        }
        sender.join(Site.ARRIVES_MS);
        site.see("sent", sent.get());
        site.see("received", received);
    }

    public void fullBlocks(Site site) throws Exception {
        fullBlocks(site, "");
    }

    /** The client counts bytes that the broker has not yet confirmed. */
    public void fullBlocksProducerWindow(Site site) throws Exception {
        fullBlocks(site, "?jms.useAsyncSend=true&jms.producerWindowSize=10000");
    }

    /** A window smaller than the messages altogether: it must be opened again and again. */
    public void producerWindow(Site site) throws Exception {
        ActiveMQConnection connection = site.connect("?jms.useAsyncSend=true&jms.producerWindowSize=3000");
        Session session = Site.auto(connection);
        String[] texts = new String[200];
        java.util.Arrays.fill(texts, "m".repeat(100));
        Site.send(session, site.queue(session), texts);
        site.see("received", Site.take(session.createConsumer(site.queue(session)), 200).size());
    }

    public void producerWindowComposite(Site site) throws Exception {
        ActiveMQConnection connection = site.connect("?jms.useAsyncSend=true&jms.producerWindowSize=3000");
        Session session = Site.auto(connection);
        Queue both = session.createQueue(site.name("a") + "," + site.name("b"));
        String[] texts = new String[50];
        java.util.Arrays.fill(texts, "m".repeat(100));
        Site.send(session, both, texts);
        List<Integer> received = List.of(
                Site.take(session.createConsumer(session.createQueue(site.name("a"))), 50).size(),
                Site.take(session.createConsumer(session.createQueue(site.name("b"))), 50).size());
        site.see("received", received);
    }

    /** A pull without a limit of time. */
    public void pullWaitsForever(Site site) throws Exception {
        site.see("received", pullLate(site, MessageConsumer::receive));
    }

    /** A pull that waits gets what comes later. */
    public void pullWaits(Site site) throws Exception {
        site.see("received", pullLate(site, consumer -> consumer.receive(Site.ARRIVES_MS)));
    }

    private interface Receive {
        javax.jms.Message from(MessageConsumer consumer) throws javax.jms.JMSException;
    }

    private static String pullLate(Site site, Receive receive) throws Exception {
        ActiveMQConnection connection = site.connect("?jms.prefetchPolicy.queuePrefetch=0");
        Session session = Site.auto(connection);
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        AtomicReference<String> received = new AtomicReference<>();
        Thread waiting = new Thread(() -> {
            try {
                received.set(Site.text(receive.from(consumer)));
            } catch (javax.jms.JMSException broken) {
                received.set(broken.toString());
            }
        });
        waiting.setDaemon(true);
        waiting.start();
        Thread.sleep(200);
        Session other = Site.auto(connection);
        Site.send(other, site.queue(other), "late");
        waiting.join(Site.ARRIVES_MS);
        return received.get();
    }
}
