package interop;

import java.util.Collections;
import java.util.List;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.command.ActiveMQMessage;

/** Topics whose subscribers are queues: producers know a topic, each application has a queue of its own. */
public final class VirtualTopics {
    private static Topic topic(Site site, Session session) throws Exception {
        return session.createTopic("VirtualTopic." + site.scenario);
    }

    private static Queue queue(Site site, Session session, String application) throws Exception {
        return session.createQueue("Consumer." + application + ".VirtualTopic." + site.scenario);
    }

    public void eachApplication(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer a = session.createConsumer(queue(site, session, "A"));
        MessageConsumer b = session.createConsumer(queue(site, session, "B"));
        MessageConsumer plain = session.createConsumer(topic(site, session));
        Site.send(session, topic(site, session), "1", "2");
        site.see("A", Site.take(a, 2));
        site.see("B", Site.take(b, 2));
        site.see("subscriber of the topic", Site.take(plain, 2));
    }

    public void sharedByConsumers(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer first = session.createConsumer(queue(site, session, "A"));
        MessageConsumer second = session.createConsumer(queue(site, session, "A"));
        Site.send(session, topic(site, session), "1", "2", "3", "4");
        site.see("in all", Site.rest(first).size() + Site.rest(second).size());
    }

    public void keepsForAbsentConsumers(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = Site.auto(connection);
        Site.send(session, topic(site, session), "before");
        MessageConsumer consumer = session.createConsumer(queue(site, session, "A"));
        Site.send(session, topic(site, session), "1");
        site.see("received", Site.take(consumer, 1));
        consumer.close();
        Site.send(session, topic(site, session), "2");
        site.see("after return", Site.take(session.createConsumer(queue(site, session, "A")), 1));
    }

    public void destinations(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer consumer = session.createConsumer(queue(site, session, "A"));
        Site.send(session, topic(site, session), "m");
        ActiveMQMessage message = (ActiveMQMessage) consumer.receive(Site.ARRIVES_MS);
        site.see("destination", message.getDestination());
        site.see("original destination", message.getOriginalDestination());
    }

    /** Is the selector of the consumer one of the queue as well? Then others' messages are never kept. */
    public void selector(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer consumer = session.createConsumer(queue(site, session, "A"), "colour = 'red'");
        MessageProducer producer = session.createProducer(topic(site, session));
        for (String colour : List.of("red", "blue")) {
            Message message = session.createTextMessage(colour);
            message.setStringProperty("colour", colour);
            producer.send(message);
        }
        site.see("with the selector", Site.rest(consumer));
        consumer.close();
        site.see("then without", Site.rest(session.createConsumer(queue(site, session, "A"))));
    }

    public void transacted(Site site) throws Exception {
        ActiveMQConnection connection = site.connect("?jms.redeliveryPolicy.initialRedeliveryDelay=0");
        Session session = Site.transacted(connection);
        MessageConsumer consumer = session.createConsumer(queue(site, session, "A"));
        Site.send(session, topic(site, session), "lost");
        session.rollback();
        Site.send(session, topic(site, session), "m");
        session.commit();
        site.see("received", Site.take(consumer, 1));
        session.rollback();
        site.see("after rollback", Site.take(consumer, 1));
        session.commit();
        site.see("after commit", Site.rest(consumer));
    }

    /** A send to the queue's own name. */
    public void sendToTheQueue(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer a = session.createConsumer(queue(site, session, "A"));
        MessageConsumer b = session.createConsumer(queue(site, session, "B"));
        site.see("send", Site.outcome(() -> Site.send(session, queue(site, session, "A"), "m")));
        site.see("A", Site.rest(a));
        site.see("B", Site.rest(b));
    }

    public void deeperNames(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        String deep = "VirtualTopic." + site.scenario + ".EU.Orders";
        MessageConsumer exact = session.createConsumer(session.createQueue("Consumer.A." + deep));
        MessageConsumer parent = session.createConsumer(queue(site, session, "A"));
        Site.send(session, session.createTopic(deep), "m");
        site.see("exact", Site.rest(exact));
        site.see("parent", Site.rest(parent));
    }

    /** The second rule of the configuration: topics of another name, and a prefix of three words. */
    public void secondRule(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        String topic = "Wide." + site.scenario;
        MessageConsumer a = session.createConsumer(session.createQueue("Reader.x.A." + topic));
        MessageConsumer b = session.createConsumer(session.createQueue("Reader.x.B." + topic));
        Site.send(session, session.createTopic(topic), "m");
        site.see("A", Site.rest(a));
        site.see("B", Site.rest(b));
    }

    /** One queue for a whole tree of topics. */
    public void wildcard(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        String base = "VirtualTopic." + site.scenario;
        MessageConsumer all = session.createConsumer(session.createQueue("Consumer.A." + base + ".>"));
        Site.send(session, session.createTopic(base + ".x"), "x");
        Site.send(session, session.createTopic(base + ".y.z"), "y.z");
        site.see("received", Site.rest(all));
    }

    public void browse(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = Site.auto(connection);
        session.createConsumer(queue(site, session, "A")).close();
        Site.send(session, topic(site, session), "1", "2");
        QueueBrowser browser = session.createBrowser(queue(site, session, "A"));
        site.see("browsed", Collections.list(browser.getEnumeration()).size());
        site.see("received", Site.take(session.createConsumer(queue(site, session, "A")), 2));
    }
}
