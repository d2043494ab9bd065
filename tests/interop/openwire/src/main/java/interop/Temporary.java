package interop;

import javax.jms.Connection;
import javax.jms.Destination;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TemporaryTopic;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.command.ConsumerId;
import org.apache.activemq.command.ConsumerInfo;
import org.apache.activemq.command.SessionId;

/** Destinations that live as long as their connection. */
public final class Temporary {
    private static final int FREE_ID = 1000;

    /** The command that makes a consumer, to be sent without what the client library checks before. */
    static ConsumerInfo consumer(ActiveMQConnection connection, String destination) throws Exception {
        byte queue = ActiveMQDestination.QUEUE_TYPE;
        // The client library makes the connection known to the broker with the first session.
        SessionId session = new SessionId(connection.getConnectionInfo().getConnectionId(), -1);
        ConsumerInfo info = new ConsumerInfo(new ConsumerId(session, FREE_ID));
        info.setDestination(ActiveMQDestination.createDestination(destination, queue));
        info.setPrefetchSize(10);
        return info;
    }

    private void requestAndReply(Site site, boolean topic, String options) throws Exception {
        ActiveMQConnection asking = site.connect(options);
        ActiveMQConnection answering = site.connect(options);
        Session server = Site.auto(answering);
        MessageConsumer requests = server.createConsumer(site.queue(server));
        Session client = Site.auto(asking);
        Destination replies = topic ? client.createTemporaryTopic() : client.createTemporaryQueue();
        MessageConsumer consumer = client.createConsumer(replies);
        Message request = client.createTextMessage("question");
        request.setJMSReplyTo(replies);
        client.createProducer(site.queue(client)).send(request);
        Message got = requests.receive(Site.ARRIVES_MS);
        site.see("reply to kept", got.getJMSReplyTo().equals(replies));
        Message answer = server.createTextMessage("answer");
        answer.setJMSCorrelationID(got.getJMSMessageID());
        server.createProducer(got.getJMSReplyTo()).send(answer);
        Message reply = consumer.receive(Site.ARRIVES_MS);
        site.see("answer", Site.text(reply));
        site.see("correlated", reply != null && request.getJMSMessageID().equals(reply.getJMSCorrelationID()));
        site.see("destination kept", reply != null && reply.getJMSDestination().equals(replies));
    }

    public void queueReply(Site site) throws Exception {
        requestAndReply(site, false, "");
    }

    public void topicReply(Site site) throws Exception {
        requestAndReply(site, true, "");
    }

    public void replyWithoutAdvisories(Site site) throws Exception {
        requestAndReply(site, false, "?jms.watchTopicAdvisories=false");
    }

    /** The library refuses; so must the broker, as other libraries may not. */
    public void consumerOfAnotherConnection(Site site) throws Exception {
        ActiveMQConnection owner = site.connect();
        TemporaryQueue temporary = Site.auto(owner).createTemporaryQueue();
        ActiveMQConnection other = site.connect();
        Session session = Site.auto(other);
        site.see("library", Site.outcome(() -> session.createConsumer(temporary)));
        String name = "temp-queue://" + temporary.getQueueName();
        site.see("broker", Site.outcome(() -> other.syncSendPacket(consumer(other, name))));
        Session own = Site.auto(owner);
        MessageConsumer consumer = own.createConsumer(temporary);
        Site.send(own, temporary, "1", "2", "3", "4");
        site.see("the owner's consumer gets", Site.rest(consumer).size());
    }

    /** The outcome of an attempt that should be refused as soon as the library hears of a deletion. */
    private static String settled(Site.Attempt attempt) throws Exception {
        Site.becomes(() -> !Site.outcome(attempt).equals("accepted"));
        return Site.outcome(attempt);
    }

    public void deletion(Site site) throws Exception {
        ActiveMQConnection owner = site.connect();
        ActiveMQConnection other = site.connect();
        Session session = Site.auto(owner);
        TemporaryQueue temporary = session.createTemporaryQueue();
        MessageConsumer consumer = session.createConsumer(temporary);
        site.see("while consumed", Site.outcome(temporary::delete));
        consumer.close();
        site.see("then", Site.outcome(temporary::delete));
        site.see("again", Site.outcome(temporary::delete));
        site.see("send by the owner", Site.outcome(() -> Site.send(session, temporary, "m")));
        Session sending = Site.auto(other);
        site.see("send by another", settled(() -> Site.send(sending, temporary, "m")));
    }

    /** Without advisories the library knows nothing, so the broker's own answer shows. */
    public void deletionWithoutAdvisories(Site site) throws Exception {
        ActiveMQConnection owner = site.connect();
        ActiveMQConnection other = site.connect("?jms.watchTopicAdvisories=false");
        TemporaryQueue temporary = Site.auto(owner).createTemporaryQueue();
        Session sending = Site.auto(other);
        MessageProducer producer = sending.createProducer(temporary);
        site.see("before", Site.outcome(() -> producer.send(sending.createTextMessage("m"))));
        temporary.delete();
        site.see("after", Site.outcome(() -> producer.send(sending.createTextMessage("m"))));
        site.see("new producer", Site.outcome(() -> Site.send(sending, temporary, "m")));
    }

    public void endsWithItsConnection(Site site) throws Exception {
        Connection owner = site.connect();
        TemporaryTopic topic = Site.auto(owner).createTemporaryTopic();
        TemporaryQueue queue = Site.auto(owner).createTemporaryQueue();
        ActiveMQConnection other = site.connect();
        Session session = Site.auto(other);
        Thread.sleep(Site.QUIET_MS);
        site.see("queue before", Site.outcome(() -> Site.send(session, queue, "m")));
        site.see("topic before", Site.outcome(() -> Site.send(session, topic, "m")));
        owner.close();
        site.see("queue after", settled(() -> Site.send(session, queue, "m")));
        site.see("topic after", settled(() -> Site.send(session, topic, "m")));
    }

    public void sharedByTheConnection(Site site) throws Exception {
        ActiveMQConnection owner = site.connect();
        TemporaryQueue temporary = Site.auto(owner).createTemporaryQueue();
        Session other = Site.auto(owner);
        Site.send(other, temporary, "1", "2");
        site.see("received", Site.take(other.createConsumer(temporary), 2));
    }
}
