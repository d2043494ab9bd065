package interop;

import java.util.ArrayList;
import java.util.List;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.command.ActiveMQMessage;

/** How often a message says it was delivered, and where it goes when that was too often. */
public final class Redelivery {
    /** The first redelivery has a delay of its own. */
    private static final String AT_ONCE =
            "?jms.redeliveryPolicy.initialRedeliveryDelay=0&jms.redeliveryPolicy.redeliveryDelay=0";
    private static final String DEAD = "ActiveMQ.DLQ";

    /** Text, JMSRedelivered and JMSXDeliveryCount. */
    private static List<Object> told(Message message) throws Exception {
        if (message == null) {
            return null;
        }
        return List.of(Site.text(message), message.getJMSRedelivered(), message.getIntProperty("JMSXDeliveryCount"));
    }

    private static List<Object> told(MessageConsumer consumer, int number) throws Exception {
        List<Object> told = new ArrayList<>();
        for (int index = 0; index < number; index++) {
            told.add(told(consumer.receive(Site.ARRIVES_MS)));
        }
        return told;
    }

    private static ActiveMQConnection filled(Site site, String options) throws Exception {
        ActiveMQConnection connection = site.connect(options);
        Session session = Site.auto(connection);
        Site.send(session, site.queue(session), "1", "2", "3");
        return connection;
    }

    /** What the next consumer is told, on a connection of its own. */
    private static void seeNext(Site site, String what) throws Exception {
        ActiveMQConnection connection = site.connect(AT_ONCE);
        Session session = Site.auto(connection);
        site.see(what, told(session.createConsumer(site.queue(session)), 3));
        connection.close();
    }

    public void recover(Site site) throws Exception {
        ActiveMQConnection connection = filled(site, AT_ONCE);
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        site.see("first", told(consumer, 2));
        session.recover();
        site.see("after recover", told(consumer, 3));
        session.recover();
        site.see("after the second recover", told(consumer, 3));
        connection.close();
        seeNext(site, "next consumer");
    }

    public void rollback(Site site) throws Exception {
        ActiveMQConnection connection = filled(site, AT_ONCE);
        Session session = Site.transacted(connection);
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        site.see("first", told(consumer, 2));
        session.rollback();
        site.see("after rollback", told(consumer, 2));
        session.rollback();
        site.see("after the second rollback", told(consumer, 2));
        connection.close();
        seeNext(site, "next consumer");
    }

    public void closeOfConnection(Site site) throws Exception {
        ActiveMQConnection connection = filled(site, "");
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        site.see("first", told(session.createConsumer(site.queue(session)), 2));
        connection.close();
        seeNext(site, "next consumer");
    }

    public void closeOfSession(Site site) throws Exception {
        ActiveMQConnection connection = filled(site, "");
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        site.see("first", told(session.createConsumer(site.queue(session)), 2));
        session.close();
        seeNext(site, "next consumer");
    }

    public void closeOfConsumer(Site site) throws Exception {
        ActiveMQConnection connection = filled(site, "");
        Session session = Site.transacted(connection);
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        site.see("first", told(consumer, 2));
        consumer.close();
        session.rollback();
        seeNext(site, "next consumer");
    }

    /** The socket breaks: the broker cannot know which of them the application saw. */
    public void lostConnection(Site site) throws Exception {
        try (Proxy proxy = new Proxy(site.url)) {
            ActiveMQConnection connection = filled(new Site(site.scenario, proxy.url()), "");
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            site.see("first", told(session.createConsumer(site.queue(session)), 2));
            proxy.cut();
            seeNext(site, "next consumer");
        }
    }

    /** Never received by the application, only by the client's buffer. */
    public void prefetchedOnly(Site site) throws Exception {
        ActiveMQConnection connection = filled(site, "");
        Session session = Site.auto(connection);
        session.createConsumer(site.queue(session));
        Thread.sleep(Site.QUIET_MS);
        connection.close();
        seeNext(site, "next consumer");
    }

    /** An unacknowledged message between two that are. */
    public void individual(Site site) throws Exception {
        ActiveMQConnection connection = filled(site, "");
        Session session = connection.createSession(false, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        Message first = consumer.receive(Site.ARRIVES_MS);
        Message second = consumer.receive(Site.ARRIVES_MS);
        Message third = consumer.receive(Site.ARRIVES_MS);
        first.acknowledge();
        third.acknowledge();
        site.see("unacknowledged", Site.text(second));
        connection.close();
        ActiveMQConnection next = site.connect();
        session = Site.auto(next);
        site.see("next consumer", told(session.createConsumer(site.queue(session)), 1));
    }

    /** After so many redeliveries the client gives up: a poison acknowledgement. */
    public void deadLetter(Site site) throws Exception {
        ActiveMQConnection connection = site.connect(AT_ONCE + "&jms.redeliveryPolicy.maximumRedeliveries=2");
        Session session = Site.transacted(connection);
        Message message = session.createTextMessage("poison");
        message.setStringProperty("scenario", site.scenario);
        session.createProducer(site.queue(session)).send(message);
        session.commit();
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        List<Object> deliveries = new ArrayList<>();
        for (Message got = consumer.receive(Site.ARRIVES_MS); got != null; got = consumer.receive(Site.QUIET_MS)) {
            deliveries.add(told(got));
            session.rollback();
        }
        site.see("deliveries", deliveries);
        seeDead(site, session);
    }

    private static void seeDead(Site site, Session session) throws Exception {
        String own = "scenario = '" + site.scenario + "'";
        Session reading = Site.auto(site.connect());
        MessageConsumer graveyard = reading.createConsumer(reading.createQueue(DEAD), own);
        ActiveMQMessage dead = (ActiveMQMessage) graveyard.receive(Site.ARRIVES_MS);
        site.see("dead letter", dead == null ? null : told(dead));
        if (dead != null) {
            String cause = dead.getStringProperty("dlqDeliveryFailureCause");
            site.see("cause named", cause != null);
            site.see("original destination", dead.getOriginalDestination());
            site.see("destination", dead.getDestination());
            site.see("persistent", dead.isPersistent());
            site.see("expiration cleared", dead.getExpiration() == 0);
        }
    }

    /** Classic discards those that are not persistent. */
    public void deadLetterNotPersistent(Site site) throws Exception {
        ActiveMQConnection connection = site.connect(AT_ONCE + "&jms.redeliveryPolicy.maximumRedeliveries=0");
        Session session = Site.transacted(connection);
        Message message = session.createTextMessage("poison");
        message.setStringProperty("scenario", site.scenario);
        session.createProducer(site.queue(session)).send(message, javax.jms.DeliveryMode.NON_PERSISTENT, 4, 0);
        session.commit();
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        site.see("received", Site.next(consumer));
        session.rollback();
        site.see("again", Site.rest(consumer));
        seeDead(site, session);
    }

    public void deadLetterOfListener(Site site) throws Exception {
        ActiveMQConnection connection = site.connect(AT_ONCE + "&jms.redeliveryPolicy.maximumRedeliveries=1");
        Session session = Site.auto(connection);
        Message message = session.createTextMessage("poison");
        message.setStringProperty("scenario", site.scenario);
        session.createProducer(site.queue(session)).send(message);
        List<Object> calls = java.util.Collections.synchronizedList(new ArrayList<>());
        session.createConsumer(site.queue(session)).setMessageListener(got -> {
            try {
                calls.add(told(got));
            } catch (Exception impossible) {
                throw new IllegalStateException(impossible);
            }
            throw new IllegalStateException("always");
        });
        Site.becomes(() -> calls.size() >= 2);
        seeDead(site, session);
        site.see("calls", List.copyOf(calls));
    }

    /** The message waits in the client, and the others wait behind it. */
    public void delayBlocks(Site site) throws Exception {
        ActiveMQConnection connection = filled(site, "?jms.redeliveryPolicy.initialRedeliveryDelay=600");
        Session session = Site.transacted(connection);
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        site.see("first", told(consumer, 1));
        session.rollback();
        site.see("at once", Site.text(consumer.receive(100)));
        site.see("later", told(consumer, 3));
        session.commit();
    }

    public void delayDoesNotBlock(Site site) throws Exception {
        String options = "?jms.redeliveryPolicy.initialRedeliveryDelay=1500&jms.nonBlockingRedelivery=true";
        ActiveMQConnection connection = filled(site, options);
        Session session = Site.transacted(connection);
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        site.see("first", told(consumer, 1));
        session.rollback();
        site.see("others first", told(consumer, 3));
        session.commit();
    }
}
