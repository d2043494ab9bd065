package interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import javax.jms.Destination;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.command.ActiveMQMessage;

/** Composite names, wildcards, names of queues inside of addresses, creation and deletion. */
public final class Destinations {
    /** Text, destination and original destination of all that comes, in the order of the texts. */
    private static List<Object> addressed(MessageConsumer consumer) throws Exception {
        List<String> received = new ArrayList<>();
        for (Message m = consumer.receive(Site.QUIET_MS); m != null; m = consumer.receive(Site.QUIET_MS)) {
            Destination original = ((ActiveMQMessage) m).getOriginalDestination();
            received.add(Site.text(m) + " to " + m.getJMSDestination() + (original == null ? "" : " from " + original));
        }
        Collections.sort(received);
        return new ArrayList<>(received);
    }

    public void compositeProducer(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        Queue both = session.createQueue(site.name("a") + "," + site.name("b"));
        MessageConsumer a = session.createConsumer(session.createQueue(site.name("a")));
        MessageConsumer b = session.createConsumer(session.createQueue(site.name("b")));
        Site.send(session, both, "m");
        site.see("a", addressed(a));
        site.see("b", addressed(b));
    }

    public void compositeOfKinds(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        Queue mixed = session.createQueue("queue://" + site.name("a") + ",topic://" + site.name("b"));
        MessageConsumer a = session.createConsumer(session.createQueue(site.name("a")));
        MessageConsumer b = session.createConsumer(session.createTopic(site.name("b")));
        Site.send(session, mixed, "m");
        site.see("queue", addressed(a));
        site.see("topic", addressed(b));
    }

    public void compositeAnonymous(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        Queue both = session.createQueue(site.name("a") + "," + site.name("b"));
        session.createProducer(null).send(both, session.createTextMessage("m"));
        site.see("a", site.left(site.name("a")));
        site.see("b", site.left(site.name("b")));
    }

    public void compositeInTransaction(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = Site.transacted(connection);
        Queue both = session.createQueue(site.name("a") + "," + site.name("b"));
        Site.send(session, both, "lost");
        session.rollback();
        Site.send(session, both, "m");
        session.commit();
        site.see("a", site.left(site.name("a")));
        site.see("b", site.left(site.name("b")));
    }

    public void compositeConsumer(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue both = session.createQueue(site.name("a") + "," + site.name("b"));
        MessageConsumer consumer = session.createConsumer(both);
        Site.send(session, session.createQueue(site.name("a")), "to a");
        Site.send(session, session.createQueue(site.name("b")), "to b");
        List<Object> received = new ArrayList<>(Site.take(consumer, 1));
        Message last = consumer.receive(Site.ARRIVES_MS);
        received.add(Site.text(last));
        site.see("received", received.stream().map(String::valueOf).sorted().toList());
        last.acknowledge();
        connection.close();
        site.see("left of a", site.left(site.name("a")));
        site.see("left of b", site.left(site.name("b")));
    }

    public void compositeTopicConsumer(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer consumer = session.createConsumer(session.createTopic(site.name("a") + "," + site.name("b")));
        Site.send(session, session.createTopic(site.name("a")), "to a");
        Site.send(session, session.createTopic(site.name("b")), "to b");
        site.see("received", addressed(consumer));
    }

    private void wildcards(Site site, boolean topic) throws Exception {
        Session session = Site.auto(site.connect());
        String base = site.name("w");
        String[] names = {base, base + ".x", base + ".y", base + ".x.y", base + ".x.y.z"};
        String anyFirst = "*." + base.substring(base.indexOf('.') + 1) + ".x";
        for (String pattern : List.of(base + ".*", base + ".>", base + ".*.y", anyFirst)) {
            MessageConsumer consumer = session.createConsumer(named(session, topic, pattern));
            for (String name : names) {
                Site.send(session, named(session, topic, name), name);
            }
            site.see(pattern, addressed(consumer).stream().map(line -> ((String) line).split(" ")[2]).toList());
            consumer.close();
            for (String name : names) {
                if (!topic) {
                    site.left(name);
                }
            }
        }
    }

    private static Destination named(Session session, boolean topic, String name) throws Exception {
        return topic ? session.createTopic(name) : session.createQueue(name);
    }

    public void wildcardTopics(Site site) throws Exception {
        wildcards(site, true);
    }

    public void wildcardQueues(Site site) throws Exception {
        wildcards(site, false);
    }

    /** Queues that exist before the consumer, and such as come after it. */
    public void wildcardQueuesOldAndNew(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Site.send(session, session.createQueue(site.name("w.old")), "old");
        MessageConsumer consumer = session.createConsumer(session.createQueue(site.name("w.>")));
        Site.send(session, session.createQueue(site.name("w.new")), "new");
        List<String> received = new ArrayList<>();
        Message last = null;
        for (Message m = consumer.receive(2000); m != null; m = consumer.receive(Site.QUIET_MS)) {
            received.add(Site.text(m));
            last = m;
        }
        site.see("received", received.stream().sorted().toList());
        if (last != null) {
            last.acknowledge();
        }
        connection.close();
        site.see("left of old", site.left(site.name("w.old")));
        site.see("left of new", site.left(site.name("w.new")));
    }

    public void wildcardProducer(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer x = session.createConsumer(session.createTopic(site.name("w.x")));
        MessageConsumer y = session.createConsumer(session.createTopic(site.name("w.y")));
        MessageConsumer all = session.createConsumer(session.createTopic(site.name("w.>")));
        site.see("send", Site.outcome(() -> Site.send(session, session.createTopic(site.name("w.*")), "m")));
        site.see("x", addressed(x));
        site.see("y", addressed(y));
        site.see("all", addressed(all));
    }

    /** An acknowledgement names the queue that the message came from, not the pattern. */
    public void wildcardTransaction(Site site) throws Exception {
        ActiveMQConnection connection = site.connect("?jms.redeliveryPolicy.initialRedeliveryDelay=0");
        Session plain = Site.auto(connection);
        Site.send(plain, plain.createQueue(site.name("w.x")), "1");
        Session session = Site.transacted(connection);
        MessageConsumer consumer = session.createConsumer(session.createQueue(site.name("w.*")));
        site.see("received", Site.take(consumer, 1));
        session.rollback();
        site.see("after rollback", Site.take(consumer, 1));
        session.commit();
        connection.close();
        site.see("left", site.left(site.name("w.x")));
    }

    /** `address::queue`, which Artemis understands and Classic takes for a name like any other. */
    public void queueOfAnAddress(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        Queue red = session.createQueue(site.name("address") + "::" + site.name("red"));
        Queue blue = session.createQueue(site.name("address") + "::" + site.name("blue"));
        MessageConsumer ofRed = session.createConsumer(red);
        MessageConsumer ofBlue = session.createConsumer(blue);
        Site.send(session, red, "to red");
        site.see("red by name", addressed(ofRed));
        site.see("blue by name", addressed(ofBlue));
    }

    /** Two consumers of one named queue of a topic share it: what JMS 2.0 calls a shared subscription. */
    public void sharedSubscription(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        Topic shared = session.createTopic(site.name("topic") + "::" + site.name("shared"));
        MessageConsumer a = session.createConsumer(shared);
        MessageConsumer b = session.createConsumer(shared);
        MessageConsumer whole = session.createConsumer(site.topic(session));
        Site.send(session, site.topic(session), "1", "2", "3", "4");
        List<String> first = Site.rest(a);
        List<String> second = Site.rest(b);
        site.see("shared, in all", first.size() + second.size());
        site.see("shared, each", first.size() == second.size());
        site.see("whole", Site.rest(whole).size());
    }

    /** A queue and a topic of one name are two things. */
    public void sameNameBothKinds(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer queue = session.createConsumer(session.createQueue(site.name("both")));
        MessageConsumer topic = session.createConsumer(session.createTopic(site.name("both")));
        Site.send(session, session.createQueue(site.name("both")), "for the queue");
        Site.send(session, session.createTopic(site.name("both")), "for the topic");
        site.see("queue", Site.rest(queue));
        site.see("topic", Site.rest(topic));
    }

    public void destroy(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = Site.auto(connection);
        Queue queue = site.queue(session);
        Site.send(session, queue, "lost");
        org.apache.activemq.command.ActiveMQDestination known = (org.apache.activemq.command.ActiveMQDestination) queue;
        MessageConsumer consumer = session.createConsumer(queue);
        site.see("with a consumer", Site.outcome(() -> connection.destroyDestination(known)));
        Site.outcome(consumer::close);
        ActiveMQConnection other = site.connect();
        Site.outcome(() -> Site.send(Site.auto(other), queue, "more"));
        site.see("without", Site.outcome(() -> other.destroyDestination(known)));
        site.see("left", site.left(site.name("queue")));
    }

    public void unknownIsCreated(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        site.see("send", Site.outcome(() -> Site.send(session, site.queue(session), "m")));
        site.see("left", site.left(site.name("queue")));
    }

    /** Names that the configuration does not create by itself. */
    public void unknownIsRefused(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        Queue queue = session.createQueue("strict." + site.scenario);
        site.see("producer", Site.outcome(() -> session.createProducer(queue)));
        MessageProducer anonymous = session.createProducer(null);
        site.see("anonymous", Site.outcome(() -> anonymous.send(queue, session.createTextMessage("m"))));
        site.see("consumer", Site.outcome(() -> session.createConsumer(queue)));
        Topic topic = session.createTopic("strict." + site.scenario);
        site.see("topic", Site.outcome(() -> session.createConsumer(topic)));
        site.see("connection afterwards", Site.outcome(() -> Site.send(session, site.queue(session), "m")));
    }

    /** A topic without subscribers forgets; a queue without consumers keeps. */
    public void withoutConsumers(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        Site.send(session, site.topic(session), "lost");
        Site.send(session, site.queue(session), "kept");
        site.see("topic", Site.rest(session.createConsumer(site.topic(session))));
        site.see("queue", Site.rest(session.createConsumer(site.queue(session))));
    }

    /** A topic that keeps its last two messages for consumers that ask for them. */
    public void retroactive(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        String name = "retro." + site.scenario;
        Site.send(session, session.createTopic(name), "1", "2", "3");
        MessageConsumer asking = session.createConsumer(session.createTopic(name + "?consumer.retroactive=true"));
        MessageConsumer ordinary = session.createConsumer(session.createTopic(name));
        site.see("asks for it", Site.rest(asking));
        site.see("does not ask", Site.rest(ordinary));
    }

    /** Options that a client of another language leaves in the name: the Java client takes them off. */
    public void optionsInTheName(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        Site.send(session, session.createQueue(site.name("queue") + "?producer.windowSize=100"), "m");
        site.see("left", site.left(site.name("queue")));
    }
}
