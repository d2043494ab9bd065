package interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import javax.jms.Connection;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.transport.DefaultTransportListener;

/**
 * A client with the failover transport that says to which broker it is connected.
 *
 * <p>Each line of its input goes to a queue and comes back; it prints where it is, and what came. Arguments: the URL, the
 * queue.
 */
public final class Wanderer {
    private static final long TIMEOUT_MS = 60_000;

    private Wanderer() {}

    public static void main(String[] arguments) throws Exception {
        Connection connection = new ActiveMQConnectionFactory(arguments[0]).createConnection();
        ActiveMQConnection known = (ActiveMQConnection) connection;
        known.addTransportListener(
                new DefaultTransportListener() {
                    @Override
                    public void transportResumed() {
                        System.out.println("at " + known.getTransport().getRemoteAddress());
                    }
                });
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue(arguments[1]));
        MessageConsumer consumer = session.createConsumer(session.createQueue(arguments[1]));
        System.out.println("ready " + known.getTransport().getRemoteAddress());
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            producer.send(session.createTextMessage(line));
            Message message = consumer.receive(TIMEOUT_MS);
            System.out.println("got " + (message == null ? null : ((TextMessage) message).getText()));
        }
        connection.close();
    }
}
