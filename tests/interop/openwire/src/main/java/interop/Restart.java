package interop;

import javax.jms.DeliveryMode;
import javax.jms.Message;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ScheduledMessage;

/** What is still there when the broker comes back. */
public final class Restart {
    public void distributedBefore(Site site) throws Exception {
        Distributed.prepareForRestart(site);
    }

    public void distributedAfter(Site site) throws Exception {
        Distributed.finishAfterRestart(site);
    }

    public void queueBefore(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageProducer producer = session.createProducer(site.queue(session));
        producer.send(session.createTextMessage("persistent"));
        producer.send(session.createTextMessage("not persistent"), DeliveryMode.NON_PERSISTENT, 4, 0);
    }

    public void queueAfter(Site site) throws Exception {
        site.see("left", site.left(site.name("queue")));
    }

    public void durableBefore(Site site) throws Exception {
        ActiveMQConnection connection = Durable.identified(site, "id");
        Session session = Site.auto(connection);
        session.createDurableSubscriber(site.topic(session), "sub", "n > 1", false);
        connection.close();
        session = Site.auto(site.connect());
        MessageProducer producer = session.createProducer(site.topic(session));
        for (int number = 1; number <= 3; number++) {
            Message message = session.createTextMessage(String.valueOf(number));
            message.setIntProperty("n", number);
            producer.send(message);
        }
    }

    public void durableAfter(Site site) throws Exception {
        Session session = Site.auto(Durable.identified(site, "id"));
        site.see("kept", Site.rest(session.createDurableSubscriber(site.topic(session), "sub", "n > 1", false)));
    }

    public void virtualTopicBefore(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        session.createConsumer(session.createQueue("Consumer.A.VirtualTopic.restart")).close();
        Site.send(session, session.createTopic("VirtualTopic.restart"), "before");
    }

    public void virtualTopicAfter(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        Site.send(session, session.createTopic("VirtualTopic.restart"), "after");
        site.see("kept", site.left("Consumer.A.VirtualTopic.restart"));
    }

    public void scheduledBefore(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        Message message = session.createTextMessage("later");
        message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_DELAY, 3_000);
        session.createProducer(site.queue(session)).send(message);
    }

    public void scheduledAfter(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        site.see("received", Site.text(session.createConsumer(site.queue(session)).receive(10_000)));
    }

    /** Delivered and not acknowledged when the broker went. */
    public void redeliveredBefore(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Site.send(session, site.queue(session), "m");
        Site.next(session.createConsumer(site.queue(session)));
        connection.close();
    }

    public void redeliveredAfter(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        Message message = session.createConsumer(site.queue(session)).receive(Site.ARRIVES_MS);
        site.see("redelivered", message.getJMSRedelivered());
        site.see("delivery count", message.getIntProperty("JMSXDeliveryCount"));
    }
}
