package interop;

import java.time.LocalTime;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ScheduledMessage;
import org.apache.activemq.command.ActiveMQMessage;

/** Messages for later, for several times, and for a time of day. */
public final class Scheduled {
    private static final long DISTANT_MS = 600_000;

    private static Message scheduled(Session session, String text, long delay, long period, int repeat)
            throws Exception {
        Message message = session.createTextMessage(text);
        if (delay > 0) {
            message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_DELAY, delay);
        }
        if (period > 0) {
            message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_PERIOD, period);
        }
        if (repeat > 0) {
            message.setIntProperty(ScheduledMessage.AMQ_SCHEDULED_REPEAT, repeat);
        }
        return message;
    }

    public void delay(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        MessageProducer producer = session.createProducer(site.queue(session));
        long start = System.nanoTime();
        producer.send(scheduled(session, "later", 1500, 0, 0));
        producer.send(session.createTextMessage("now"));
        site.see("first", Site.next(consumer));
        Message later = consumer.receive(Site.ARRIVES_MS);
        site.see("then", Site.text(later));
        site.see("not too early", System.nanoTime() - start >= 1_490_000_000L);
        site.see("delay still a property", later.propertyExists(ScheduledMessage.AMQ_SCHEDULED_DELAY));
        site.see("job id", later.propertyExists("scheduledJobId"));
        site.see("id kept", later.getJMSMessageID() != null);
    }

    /** A delay of another type than long. */
    public void delayAsInt(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        Message message = session.createTextMessage("m");
        message.setIntProperty(ScheduledMessage.AMQ_SCHEDULED_DELAY, 1500);
        session.createProducer(site.queue(session)).send(message);
        site.see("at once", Site.text(consumer.receive(600)));
    }

    public void delayToTopic(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer consumer = session.createConsumer(site.topic(session));
        session.createProducer(site.topic(session)).send(scheduled(session, "later", 1000, 0, 0));
        site.see("at once", Site.text(consumer.receive(300)));
        site.see("later", Site.next(consumer));
    }

    public void delayInTransaction(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = Site.transacted(connection);
        MessageProducer producer = session.createProducer(site.queue(session));
        producer.send(scheduled(session, "lost", 300, 0, 0));
        session.rollback();
        producer.send(scheduled(session, "kept", 300, 0, 0));
        session.commit();
        Session reading = Site.auto(connection);
        MessageConsumer consumer = reading.createConsumer(site.queue(reading));
        site.see("received", Site.take(consumer, 1));
        site.see("more", Site.rest(consumer));
    }

    /** The first after the delay, and as many more as it says. */
    public void repeat(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        Message message = scheduled(session, "m", 300, 300, 2);
        session.createProducer(site.queue(session)).send(message);
        Message first = consumer.receive(Site.ARRIVES_MS);
        int number = first == null ? 0 : 1;
        boolean same = true;
        for (Message m = consumer.receive(1500); m != null; m = consumer.receive(1500)) {
            number++;
            same &= m.getJMSMessageID().equals(first.getJMSMessageID());
        }
        site.see("deliveries", number);
        site.see("all with one id", same);
    }

    /** A minute that is far away: nothing comes now, and the job is listed. */
    public void cronLater(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        Message message = session.createTextMessage("m");
        int minute = (LocalTime.now().getMinute() + 30) % 60;
        message.setStringProperty(ScheduledMessage.AMQ_SCHEDULED_CRON, minute + " * * * *");
        session.createProducer(site.queue(session)).send(message);
        site.see("at once", Site.text(consumer.receive(600)));
    }

    public void cronThatIsWrong(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        ActiveMQMessage message = (ActiveMQMessage) session.createTextMessage("m");
        String name = ScheduledMessage.AMQ_SCHEDULED_CRON;
        site.see("library", Site.outcome(() -> message.setStringProperty(name, "every monday")));
        message.setProperty(name, "every monday");
        site.see("broker", Site.outcome(() -> session.createProducer(site.queue(session)).send(message)));
        site.see("left", site.left(site.name("queue")));
    }

    /** At the next full minute: the one scenario that takes long. */
    public void cron(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        Message message = session.createTextMessage("m");
        message.setStringProperty(ScheduledMessage.AMQ_SCHEDULED_CRON, "* * * * *");
        session.createProducer(site.queue(session)).send(message);
        site.see("within 65 s", Site.text(consumer.receive(65_000)));
    }

    /** Jobs are asked for and removed by messages to a topic. */
    public void management(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        session.createProducer(site.queue(session)).send(scheduled(session, "m", DISTANT_MS, 0, 0));
        javax.jms.Topic manage = session.createTopic(ScheduledMessage.AMQ_SCHEDULER_MANAGEMENT_DESTINATION);
        javax.jms.TemporaryQueue replies = session.createTemporaryQueue();
        MessageConsumer listed = session.createConsumer(replies);
        MessageProducer producer = session.createProducer(manage);
        String job = list(session, producer, replies, listed);
        site.see("listed", job != null);
        if (job != null) {
            Message remove = session.createMessage();
            String removal = ScheduledMessage.AMQ_SCHEDULER_ACTION_REMOVE;
            remove.setStringProperty(ScheduledMessage.AMQ_SCHEDULER_ACTION, removal);
            remove.setStringProperty(ScheduledMessage.AMQ_SCHEDULED_ID, job);
            producer.send(remove);
            site.see("removed", list(session, producer, replies, listed) == null);
        }
    }

    private static String list(
            Session session, MessageProducer producer, javax.jms.Queue replies, MessageConsumer listed)
            throws Exception {
        Message ask = session.createMessage();
        ask.setStringProperty(ScheduledMessage.AMQ_SCHEDULER_ACTION, ScheduledMessage.AMQ_SCHEDULER_ACTION_BROWSE);
        ask.setJMSReplyTo(replies);
        producer.send(ask);
        String own = null;
        for (Message m = listed.receive(1000); m != null; m = listed.receive(Site.QUIET_MS)) {
            boolean delayed = m.propertyExists(ScheduledMessage.AMQ_SCHEDULED_DELAY);
            if (delayed && m.getLongProperty(ScheduledMessage.AMQ_SCHEDULED_DELAY) == DISTANT_MS) {
                own = m.getStringProperty(ScheduledMessage.AMQ_SCHEDULED_ID);
            }
        }
        return own;
    }
}
