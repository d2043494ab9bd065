package interop;

import javax.jms.Connection;
import javax.jms.Destination;
import javax.jms.InvalidDestinationException;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TemporaryTopic;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * Requests at one broker, replies at another one: to temporary destinations, which the client names itself.
 *
 * <p>Prints what came back, one line each. Arguments: the URL of the requester's broker, that of the replier's.
 */
public final class Replies {
    private static final long TIMEOUT_MS = 60_000;
    private static final int COUNT = 20;

    private Replies() {}

    public static void main(String[] arguments) throws Exception {
        Connection requests = new ActiveMQConnectionFactory(arguments[0]).createConnection();
        Connection replies = new ActiveMQConnectionFactory(arguments[1]).createConnection();
        requests.start();
        replies.start();
        Session requester = requests.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Session replier = replies.createSession(false, Session.AUTO_ACKNOWLEDGE);
        TemporaryQueue last = null;
        for (int number = 0; number < COUNT; number++) {
            TemporaryQueue queue = requester.createTemporaryQueue();
            String came = exchange(requester, replier, queue);
            if (!"reply".equals(came)) {
                System.out.println("queue " + number + " " + came);
            }
            last = queue;
        }
        System.out.println("queues done");
        TemporaryTopic topic = requester.createTemporaryTopic();
        System.out.println("topic " + exchange(requester, replier, topic));
        last.delete();
        topic.delete();
        System.out.println("late " + late(replier, last));
        System.out.println("late " + late(replier, topic));
        requests.close();
        replies.close();
    }

    /** One request and its reply; what came back. */
    private static String exchange(Session requester, Session replier, Destination replyTo) throws JMSException {
        try (MessageConsumer consumer = requester.createConsumer(replyTo);
                MessageProducer producer = requester.createProducer(requester.createQueue("requests"));
                MessageConsumer work = replier.createConsumer(replier.createQueue("requests"))) {
            TextMessage request = requester.createTextMessage("request");
            request.setJMSReplyTo(replyTo);
            producer.send(request);
            Message received = work.receive(TIMEOUT_MS);
            if (received == null) {
                return "no request";
            }
            try (MessageProducer back = replier.createProducer(received.getJMSReplyTo())) {
                back.send(replier.createTextMessage("reply"));
            }
            Message reply = consumer.receive(TIMEOUT_MS);
            return reply == null ? "no reply" : ((TextMessage) reply).getText();
        }
    }

    /** What a client hears that replies to a destination which is gone, perhaps a moment later. */
    private static String late(Session replier, Destination gone) throws Exception {
        for (int attempt = 0; attempt < 100; attempt++) {
            try (MessageProducer back = replier.createProducer(gone)) {
                back.send(replier.createTextMessage("late"));
            } catch (InvalidDestinationException refused) {
                return "refused";
            }
            Thread.sleep(100);
        }
        return "accepted";
    }
}
