package interop;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;

/** How consumers of one queue share it: rotation, exclusive consumers, priorities, message groups. */
public final class Sharing {
    private static final String FIRST = "JMSXGroupFirstForConsumer";

    private static Queue queue(Site site, Session session, String options) throws Exception {
        return session.createQueue(site.name("queue") + options);
    }

    private static String[] numbers(int number) {
        String[] texts = new String[number];
        for (int index = 0; index < number; index++) {
            texts[index] = String.valueOf(index + 1);
        }
        return texts;
    }

    public void rotation(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = Site.auto(connection);
        MessageConsumer first = session.createConsumer(queue(site, session, ""));
        MessageConsumer second = session.createConsumer(queue(site, session, ""));
        Site.send(session, queue(site, session, ""), numbers(6));
        site.see("first", Site.rest(first).size());
        site.see("second", Site.rest(second).size());
    }

    public void exclusiveConsumer(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer first = session.createConsumer(queue(site, session, "?consumer.exclusive=true"));
        MessageConsumer second = session.createConsumer(queue(site, session, "?consumer.exclusive=true"));
        Site.send(session, queue(site, session, ""), numbers(4));
        site.see("first", Site.rest(first).size());
        site.see("second", Site.rest(second).size());
        first.close();
        Site.send(session, queue(site, session, ""), numbers(2));
        site.see("second after the first closed", Site.rest(second).size());
    }

    /** A consumer that comes later and asks for all. */
    public void exclusiveBesideOrdinary(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer ordinary = session.createConsumer(queue(site, session, ""));
        MessageConsumer exclusive = session.createConsumer(queue(site, session, "?consumer.exclusive=true"));
        Site.send(session, queue(site, session, ""), numbers(4));
        site.see("exclusive", Site.rest(exclusive).size());
        site.see("ordinary", Site.rest(ordinary).size());
    }

    public void consumerPriority(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer low = session.createConsumer(queue(site, session, ""));
        MessageConsumer high = session.createConsumer(queue(site, session, "?consumer.priority=10"));
        Site.send(session, queue(site, session, ""), numbers(4));
        site.see("high", Site.rest(high).size());
        site.see("low", Site.rest(low).size());
        high.close();
        Site.send(session, queue(site, session, ""), numbers(2));
        site.see("low after the high closed", Site.rest(low).size());
    }

    /** The window of the preferred consumer is full: the others get the rest. */
    public void consumerPriorityOverflows(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer low = session.createConsumer(queue(site, session, ""));
        String preferred = "?consumer.priority=10&consumer.prefetchSize=2";
        MessageConsumer high = session.createConsumer(queue(site, session, preferred));
        Site.send(session, queue(site, session, ""), numbers(5));
        Thread.sleep(Site.QUIET_MS);
        site.see("low", Site.rest(low).size());
        site.see("high", Site.rest(high).size());
    }

    public void negativePriority(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer low = session.createConsumer(queue(site, session, "?consumer.priority=-5"));
        MessageConsumer ordinary = session.createConsumer(queue(site, session, ""));
        Site.send(session, queue(site, session, ""), numbers(4));
        site.see("ordinary", Site.rest(ordinary).size());
        site.see("low", Site.rest(low).size());
    }

    private static Message grouped(Session session, String group, String text, int sequence) throws Exception {
        Message message = session.createTextMessage(text);
        message.setStringProperty("JMSXGroupID", group);
        if (sequence != 0) {
            message.setIntProperty("JMSXGroupSeq", sequence);
        }
        return message;
    }

    /** Text, group's number and whether the consumer is told that the group is new to it. */
    private static List<Object> drain(MessageConsumer consumer) throws Exception {
        List<Object> received = new ArrayList<>();
        for (Message m = consumer.receive(Site.QUIET_MS); m != null; m = consumer.receive(Site.QUIET_MS)) {
            boolean first = m.propertyExists(FIRST) && m.getBooleanProperty(FIRST);
            received.add(Site.text(m) + (first ? " first" : ""));
        }
        return received;
    }

    public void groups(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        Map<String, MessageConsumer> consumers = new HashMap<>();
        for (String name : List.of("a", "b")) {
            consumers.put(name, session.createConsumer(queue(site, session, "?consumer.prefetchSize=100")));
        }
        MessageProducer producer = session.createProducer(queue(site, session, ""));
        for (int index = 0; index < 12; index++) {
            producer.send(grouped(session, "g" + index % 4, "g" + index % 4, 0));
        }
        Map<String, Set<String>> owners = new HashMap<>();
        int received = 0;
        for (Map.Entry<String, MessageConsumer> consumer : consumers.entrySet()) {
            for (String text : Site.rest(consumer.getValue())) {
                owners.computeIfAbsent(text, group -> new HashSet<>()).add(consumer.getKey());
                received++;
            }
        }
        Set<String> used = new HashSet<>();
        owners.values().forEach(used::addAll);
        site.see("received", received);
        site.see("most consumers of one group", owners.values().stream().mapToInt(Set::size).max().orElse(0));
        site.see("consumers used", used.size());
    }

    public void groupFirstForConsumer(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer consumer = session.createConsumer(queue(site, session, ""));
        MessageProducer producer = session.createProducer(queue(site, session, ""));
        for (String text : List.of("1", "2")) {
            producer.send(grouped(session, "g", text, 0));
        }
        site.see("received", drain(consumer));
    }

    /** Sequence -1 gives the group up; its next message finds a new owner. */
    public void groupClose(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer a = session.createConsumer(queue(site, session, ""));
        MessageConsumer b = session.createConsumer(queue(site, session, ""));
        MessageProducer producer = session.createProducer(queue(site, session, ""));
        producer.send(grouped(session, "g", "1", 0));
        producer.send(grouped(session, "g", "2", 0));
        producer.send(grouped(session, "g", "close", -1));
        List<Object> ofA = drain(a);
        List<Object> ofB = drain(b);
        boolean aOwned = !ofA.isEmpty();
        site.see("owner", aOwned ? ofA : ofB);
        site.see("other", aOwned ? ofB : ofA);
        producer.send(grouped(session, "g", "3", 0));
        producer.send(grouped(session, "g", "4", 0));
        ofA = drain(a);
        ofB = drain(b);
        site.see("consumers afterwards", (ofA.isEmpty() ? 0 : 1) + (ofB.isEmpty() ? 0 : 1));
        ofA.addAll(ofB);
        site.see("messages afterwards", ofA);
    }

    public void groupOfAClosedConsumer(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer a = session.createConsumer(queue(site, session, ""));
        MessageProducer producer = session.createProducer(queue(site, session, ""));
        producer.send(grouped(session, "g", "1", 0));
        site.see("first owner", drain(a));
        MessageConsumer b = session.createConsumer(queue(site, session, ""));
        producer.send(grouped(session, "g", "2", 0));
        site.see("the first still owns", drain(a));
        a.close();
        producer.send(grouped(session, "g", "3", 0));
        site.see("second owner", drain(b));
    }
}
