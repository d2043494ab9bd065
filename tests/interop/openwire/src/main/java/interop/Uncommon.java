package interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.BytesMessage;
import javax.jms.DeliveryMode;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.QueueRequestor;
import javax.jms.QueueSession;
import javax.jms.ServerSession;
import javax.jms.ServerSessionPool;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.TopicRequestor;
import javax.jms.TopicSession;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.RedeliveryPolicy;

/** What few applications do, and the client can. */
public final class Uncommon {
    /** The client waits longer before each attempt, and gives the message up in the end. */
    public void backOff(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        RedeliveryPolicy policy = new RedeliveryPolicy();
        policy.setInitialRedeliveryDelay(40);
        policy.setRedeliveryDelay(40);
        policy.setUseExponentialBackOff(true);
        policy.setBackOffMultiplier(3);
        policy.setMaximumRedeliveries(3);
        connection.setRedeliveryPolicy(policy);
        Session session = Site.transacted(connection);
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        TextMessage message = session.createTextMessage("m");
        message.setStringProperty("scenario", site.scenario);
        session.createProducer(site.queue(session)).send(message);
        session.commit();
        List<Integer> counts = new ArrayList<>();
        for (Message m = consumer.receive(Site.ARRIVES_MS); m != null; m = consumer.receive(2 * Site.QUIET_MS)) {
            counts.add(m.getIntProperty("JMSXDeliveryCount"));
            session.rollback();
        }
        site.see("attempts", counts);
        Session reading = Site.auto(connection);
        String selector = "scenario = '" + site.scenario + "' AND dlqDeliveryFailureCause IS NOT NULL";
        MessageConsumer dead = reading.createConsumer(reading.createQueue("ActiveMQ.DLQ"), selector);
        site.see("given up", Site.next(dead));
    }

    /** No second attempt at all. */
    public void noRedelivery(Site site) throws Exception {
        Session session = Site.transacted(site.connect("?jms.redeliveryPolicy.maximumRedeliveries=0"));
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        Site.send(session, site.queue(session), "1", "2");
        session.commit();
        site.see("first", Site.next(consumer));
        session.rollback();
        site.see("next", Site.next(consumer));
        session.commit();
        site.see("left", site.left(site.name("queue")));
    }

    /** Each retry is delayed, and what comes behind is not. */
    public void retriesOutOfOrder(Site site) throws Exception {
        Session session = Site.transacted(site.connect(
                "?jms.nonBlockingRedelivery=true&jms.redeliveryPolicy.initialRedeliveryDelay=300"));
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        Site.send(session, site.queue(session), "1", "2", "3");
        session.commit();
        List<String> seen = new ArrayList<>(List.of(Site.next(consumer)));
        session.rollback();
        for (int index = 0; index < 3; index++) {
            seen.add(Site.next(consumer));
            session.commit();
        }
        Collections.sort(seen);
        site.see("received", seen);
        site.see("more", Site.rest(consumer));
    }

    public void requestors(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session answering = Site.auto(connection);
        for (javax.jms.Destination to : List.of(site.queue(answering), site.topic(answering))) {
            answering.createConsumer(to).setMessageListener(request -> {
                try {
                    TextMessage answer = answering.createTextMessage("re " + Site.text(request));
                    answering.createProducer(request.getJMSReplyTo()).send(answer);
                } catch (Exception wrong) {
                    throw new IllegalStateException(wrong);
                }
            });
        }
        QueueSession queues = connection.createQueueSession(false, Session.AUTO_ACKNOWLEDGE);
        QueueRequestor toQueue = new QueueRequestor(queues, site.queue(queues));
        site.see("queue", Site.text(toQueue.request(queues.createTextMessage("1"))));
        site.see("queue again", Site.text(toQueue.request(queues.createTextMessage("2"))));
        toQueue.close();
        TopicSession topics = connection.createTopicSession(false, Session.AUTO_ACKNOWLEDGE);
        TopicRequestor toTopic = new TopicRequestor(topics, site.topic(topics));
        site.see("topic", Site.text(toTopic.request(topics.createTextMessage("3"))));
        toTopic.close();
    }

    /** Many entries, a long key, a long value. */
    public void largeMaps(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        MapMessage map = session.createMapMessage();
        for (int index = 0; index < 20_000; index++) {
            map.setInt("key" + index, index);
        }
        map.setString("k".repeat(5_000), "v".repeat(70_000));
        for (int index = 0; index < 2_000; index++) {
            map.setIntProperty("p" + index, index);
        }
        session.createProducer(site.queue(session)).send(map);
        MapMessage got = (MapMessage) consumer.receive(Site.ARRIVES_MS);
        site.see("entries", Collections.list(got.getMapNames()).size());
        site.see("last", got.getInt("key19999"));
        site.see("long", got.getString("k".repeat(5_000)).length());
        site.see("property", got.getIntProperty("p1999"));
    }

    /** A pool of sessions that an application server would have. */
    public void connectionConsumer(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        CountDownLatch latch = new CountDownLatch(3);
        List<String> texts = Collections.synchronizedList(new ArrayList<>());
        List<Thread> threads = Collections.synchronizedList(new ArrayList<>());
        ServerSessionPool pool = () -> {
            try {
                Session session = Site.auto(connection);
                session.setMessageListener(message -> {
                    try {
                        texts.add(Site.text(message));
                    } catch (Exception wrong) {
                        texts.add(wrong.toString());
                    }
                    latch.countDown();
                });
                return new ServerSession() {
                    @Override
                    public Session getSession() {
                        return session;
                    }

                    @Override
                    public void start() {
                        Thread thread = new Thread(session);
                        threads.add(thread);
                        thread.start();
                    }
                };
            } catch (Exception wrong) {
                throw new IllegalStateException(wrong);
            }
        };
        Session session = Site.auto(connection);
        connection.createConnectionConsumer(site.queue(session), "n > 0", pool, 2);
        MessageProducer producer = session.createProducer(site.queue(session));
        for (int n = 0; n < 4; n++) {
            TextMessage message = session.createTextMessage("m" + n);
            message.setIntProperty("n", n);
            producer.send(message);
        }
        latch.await(Site.ARRIVES_MS, TimeUnit.MILLISECONDS);
        Collections.sort(texts);
        site.see("received", List.copyOf(texts));
        // A session acknowledges after the listener has returned, and must not be closed before that.
        for (Thread thread : List.copyOf(threads)) {
            thread.join(Site.ARRIVES_MS);
        }
        connection.close();
        site.see("left", site.left(site.name("queue")));
    }

    /** A received message is sent on as it is, by a connection of its own. */
    public void sendOn(Site site) throws Exception {
        Session session = Site.transacted(site.connect("?jms.redeliveryPolicy.initialRedeliveryDelay=0"));
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        MessageProducer producer = session.createProducer(null);
        TextMessage first = session.createTextMessage("m");
        first.setStringProperty("JMSXGroupID", "g");
        first.setIntProperty("n", 3);
        first.setJMSCorrelationID("c");
        producer.send(site.queue(session), first);
        session.commit();
        consumer.receive(Site.ARRIVES_MS);
        session.rollback();
        Message got = consumer.receive(Site.ARRIVES_MS);
        site.see("received again", got.getJMSRedelivered());
        MessageConsumer next = session.createConsumer(session.createQueue(site.name("next")));
        producer.send(session.createQueue(site.name("next")), got);
        session.commit();
        Message sent = next.receive(Site.ARRIVES_MS);
        session.commit();
        site.see("text", Site.text(sent));
        site.see("redelivered", sent.getJMSRedelivered());
        site.see("count", sent.getIntProperty("JMSXDeliveryCount"));
        site.see("destination", sent.getJMSDestination());
        site.see("n", sent.getIntProperty("n"));
        site.see("group", sent.getStringProperty("JMSXGroupID"));
        site.see("correlation", sent.getJMSCorrelationID());
        site.see("another id", !sent.getJMSMessageID().equals(first.getJMSMessageID()));
    }

    /** Every header that a selector may name. */
    public void selectorsOnHeaders(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageProducer producer = session.createProducer(site.queue(session));
        TextMessage message = session.createTextMessage("m");
        message.setJMSCorrelationID("c-1");
        message.setJMSType("kind");
        message.setStringProperty("JMSXGroupID", "g");
        message.setStringProperty("text", "a'b%c_d");
        message.setDoubleProperty("d", 1.5);
        message.setBooleanProperty("b", true);
        producer.send(message, DeliveryMode.PERSISTENT, 6, 60_000);
        for (String selector : List.of(
                "JMSMessageID = '" + message.getJMSMessageID() + "'", "JMSCorrelationID = 'c-1'", "JMSType IN ('kind')",
                "JMSPriority = 6", "JMSDeliveryMode = 'PERSISTENT'", "JMSTimestamp > 1000", "JMSExpiration > 1000",
                "JMSXGroupID = 'g'", "text = 'a''b%c_d'", "text LIKE 'a''b\\%c\\_d' ESCAPE '\\'", "text LIKE 'a_b%'",
                "d BETWEEN 1 AND 2", "d * 2 = 3", "b", "b = TRUE", "NOT b", "missing IS NULL", "missing = 'x'",
                "missing <> 'x'", "JMSReplyTo IS NULL", "JMSRedelivered = FALSE", "0x10 = 16", "d > '1'")) {
            site.see(selector.replace(message.getJMSMessageID(), "its id"), browsed(session, site, selector));
        }
    }

    private static Object browsed(Session session, Site site, String selector) throws Exception {
        try {
            return session.createBrowser(site.queue(session), selector).getEnumeration().hasMoreElements();
        } catch (javax.jms.JMSException refused) {
            return refused.getClass().getSimpleName();
        }
    }

    /** Pulls that find nothing, something, and something that was rolled back. */
    public void pulls(Site site) throws Exception {
        ActiveMQConnection connection = site.connect(
                "?jms.prefetchPolicy.all=0&jms.redeliveryPolicy.initialRedeliveryDelay=0");
        Session session = Site.transacted(connection);
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        site.see("nothing", Site.text(consumer.receiveNoWait()));
        site.see("nothing in time", Site.text(consumer.receive(100)));
        Site.send(session, site.queue(session), "1", "2");
        session.commit();
        site.see("first", Site.next(consumer));
        session.rollback();
        site.see("again", Site.take(consumer, 2));
        session.commit();
        site.see("nothing more", Site.text(consumer.receiveNoWait()));
        Site.send(session, site.queue(session), "3");
        session.commit();
        site.see("without waiting", Site.text(consumer.receiveNoWait()));
        session.commit();
        consumer.close();
        site.see("left", site.left(site.name("queue")));
    }

    /** One message at a time to each of three. */
    public void prefetchOfOne(Site site) throws Exception {
        ActiveMQConnection connection = site.connect("?jms.prefetchPolicy.all=1");
        List<MessageConsumer> consumers = new ArrayList<>();
        List<Session> sessions = new ArrayList<>();
        for (int index = 0; index < 3; index++) {
            sessions.add(connection.createSession(false, Session.CLIENT_ACKNOWLEDGE));
            consumers.add(sessions.get(index).createConsumer(site.queue(sessions.get(index))));
        }
        Site.send(sessions.get(0), site.queue(sessions.get(0)), "1", "2", "3", "4");
        List<String> texts = new ArrayList<>();
        List<Message> held = new ArrayList<>();
        for (MessageConsumer consumer : consumers) {
            held.add(consumer.receive(Site.ARRIVES_MS));
            texts.add(Site.text(held.get(held.size() - 1)));
        }
        Collections.sort(texts);
        site.see("one each", texts);
        held.get(1).acknowledge();
        int fourth = 0;
        for (MessageConsumer consumer : consumers) {
            Message more = consumer.receive(Site.QUIET_MS);
            fourth += more == null ? 0 : 1;
            if (more != null) {
                more.acknowledge();
            }
        }
        site.see("the fourth", fourth);
    }

    /** A stopped connection gets nothing; what came in between is there after the start. */
    public void stopAndStart(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = Site.auto(connection);
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        connection.stop();
        Site.send(session, site.queue(session), "1");
        site.see("stopped", Site.text(consumer.receive(Site.QUIET_MS)));
        connection.start();
        site.see("started", Site.next(consumer));
    }

    /** A client acknowledges late, and closes its session first. */
    public void acknowledgeAfterClose(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Site.send(session, site.queue(session), "1", "2");
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        Message first = consumer.receive(Site.ARRIVES_MS);
        consumer.close();
        site.see("acknowledge", Site.outcome(first::acknowledge));
        session.close();
        site.see("left", site.left(site.name("queue")));
    }

    /** Empty bodies and names, compressed as well. */
    public void emptyAndOdd(Site site) throws Exception {
        for (String options : List.of("", "?jms.useCompression=true")) {
            Session session = Site.auto(site.connect(options));
            String queue = site.name("queue ü/\ud83d\ude00 " + (options.isEmpty() ? "plain" : "compressed"));
            MessageProducer producer = session.createProducer(session.createQueue(queue));
            MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
            producer.send(session.createBytesMessage());
            site.see("bytes" + options, ((BytesMessage) consumer.receive(Site.ARRIVES_MS)).getBodyLength());
            producer.send(session.createStreamMessage());
            site.see("stream" + options, consumer.receive(Site.ARRIVES_MS) instanceof javax.jms.StreamMessage);
            TextMessage text = session.createTextMessage("\u0000\ud83d\ude00\u0000");
            text.setStringProperty("\u00fc", "");
            producer.send(text);
            Message got = consumer.receive(Site.ARRIVES_MS);
            site.see("text" + options, Site.text(got).equals("\u0000\ud83d\ude00\u0000"));
            site.see("property" + options, got.getStringProperty("\u00fc"));
        }
    }

    /** Consumers come and go on a topic and a queue while messages are on their way. */
    public void comingAndGoing(Site site) throws Exception {
        ActiveMQConnection connection = site.connect("?jms.prefetchPolicy.all=3");
        Session sending = Site.auto(site.connect());
        MessageProducer producer = sending.createProducer(site.queue(sending));
        AtomicInteger received = new AtomicInteger();
        for (int round = 0; round < 20; round++) {
            for (int index = 0; index < 5; index++) {
                producer.send(sending.createTextMessage(round + "." + index));
            }
            Session session = Site.auto(connection);
            MessageConsumer consumer = session.createConsumer(site.queue(session));
            for (int index = 0; index < 3; index++) {
                received.addAndGet(consumer.receive(Site.ARRIVES_MS) == null ? 0 : 1);
            }
            session.close();
        }
        site.see("received", received.get());
        site.see("left", site.left(site.name("queue")).size());
    }
}
