package interop;

import java.util.List;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;

/** Local transactions: all or nothing, over several destinations. */
public final class Transactions {
    public void sendsAppearAtCommit(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = Site.transacted(connection);
        Session other = Site.auto(connection);
        MessageConsumer consumer = other.createConsumer(site.queue(other));
        Site.send(session, site.queue(session), "1", "2");
        site.see("before commit", Site.rest(consumer));
        session.commit();
        site.see("after commit", Site.take(consumer, 2));
    }

    public void sendsVanishAtRollback(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = Site.transacted(connection);
        Site.send(session, site.queue(session), "lost");
        session.rollback();
        Site.send(session, site.queue(session), "kept");
        session.commit();
        site.see("left", site.left(site.name("queue")));
    }

    public void acknowledgementsVanishAtRollback(Site site) throws Exception {
        ActiveMQConnection connection = site.connect("?jms.redeliveryPolicy.initialRedeliveryDelay=0");
        Session session = Site.transacted(connection);
        Site.send(Site.auto(connection), site.queue(session), "1", "2", "3");
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        site.see("received", Site.take(consumer, 2));
        session.rollback();
        site.see("after rollback", Site.take(consumer, 3));
        session.commit();
        connection.close();
        site.see("left", site.left(site.name("queue")));
    }

    /** A queue to another and back: one commit, or nothing. */
    public void move(Site site) throws Exception {
        ActiveMQConnection connection = site.connect("?jms.redeliveryPolicy.initialRedeliveryDelay=0");
        Session session = Site.transacted(connection);
        Queue target = session.createQueue(site.name("target"));
        Site.send(Site.auto(connection), site.queue(session), "m");
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        Site.send(session, target, Site.next(consumer) + " rolled back");
        session.rollback();
        Site.send(session, target, Site.next(consumer) + " committed");
        session.commit();
        connection.close();
        site.see("source", site.left(site.name("queue")));
        site.see("target", site.left(site.name("target")));
    }

    public void closingTheSessionRollsBack(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Site.send(Site.auto(connection), site.queue(Site.auto(connection)), "stays");
        Session session = Site.transacted(connection);
        site.see("received", Site.next(session.createConsumer(site.queue(session))));
        Site.send(session, site.queue(session), "lost");
        session.close();
        site.see("left", site.left(site.name("queue")));
    }

    /** More messages in one transaction than the window has. */
    public void beyondPrefetch(Site site) throws Exception {
        ActiveMQConnection connection = site.connect("?jms.prefetchPolicy.queuePrefetch=2");
        Session session = Site.transacted(connection);
        Site.send(Site.auto(connection), site.queue(session), "1", "2", "3", "4", "5", "6", "7");
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        site.see("received", Site.take(consumer, 7));
        session.commit();
        connection.close();
        site.see("left", site.left(site.name("queue")));
    }

    /** Transactions of two sessions of one connection do not mix. */
    public void twoSessions(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session first = Site.transacted(connection);
        Session second = Site.transacted(connection);
        Site.send(first, site.queue(first), "first");
        Site.send(second, site.queue(second), "second");
        first.rollback();
        second.commit();
        site.see("left", site.left(site.name("queue")));
    }

    public void topicAndQueueTogether(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session reading = Site.auto(connection);
        MessageConsumer topic = reading.createConsumer(site.topic(reading));
        MessageConsumer queue = reading.createConsumer(site.queue(reading));
        Session session = Site.transacted(connection);
        Site.send(session, site.topic(session), "topic");
        Site.send(session, site.queue(session), "queue");
        site.see("before commit", List.of(Site.rest(topic), Site.rest(queue)));
        session.commit();
        site.see("after commit", List.of(Site.take(topic, 1), Site.take(queue, 1)));
    }

    /** A consumer closed inside a transaction: what it received is still committed. */
    public void consumerClosedBeforeCommit(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = Site.transacted(connection);
        Site.send(Site.auto(connection), site.queue(session), "1", "2");
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        Message first = consumer.receive(Site.ARRIVES_MS);
        site.see("received", Site.text(first));
        consumer.close();
        session.commit();
        connection.close();
        site.see("left", site.left(site.name("queue")));
    }
}
