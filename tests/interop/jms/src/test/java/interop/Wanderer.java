package interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.jms.JmsConnection;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.apache.qpid.jms.JmsConnectionListener;
import org.apache.qpid.jms.message.JmsInboundMessageDispatch;
import org.junit.jupiter.api.Test;

/**
 * A client that knows one broker of a mesh, and must end at the port that `-Dbroker.last=` names.
 *
 * <p>It creates the file of `-Dbroker.ready=` when it is connected; whoever waits for that may end its broker.
 */
final class Wanderer implements JmsConnectionListener {
    private final BlockingQueue<URI> places = new LinkedBlockingQueue<>();

    @Test
    void endsWhereItIsTold() throws Exception {
        int last = Integer.getInteger("broker.last");
        Connection connection = new JmsConnectionFactory(System.getProperty("broker.url")).createConnection();
        ((JmsConnection) connection).addConnectionListener(this);
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Files.createFile(Path.of(System.getProperty("broker.ready")));
        URI place;
        do {
            place = places.poll(120, TimeUnit.SECONDS);
            assertNotNull(place);
        } while (place.getPort() != last);
        MessageProducer producer = session.createProducer(session.createQueue("q"));
        MessageConsumer consumer = session.createConsumer(session.createQueue("q"));
        producer.send(session.createTextMessage("here"));
        assertEquals("here", Broker.text(consumer));
        connection.close();
    }

    @Override
    public void onConnectionEstablished(URI place) {
        places.add(place);
    }

    @Override
    public void onConnectionRestored(URI place) {
        places.add(place);
    }

    @Override
    public void onConnectionFailure(Throwable error) {}

    @Override
    public void onConnectionInterrupted(URI place) {}

    @Override
    public void onInboundMessage(JmsInboundMessageDispatch delivery) {}

    @Override
    public void onSessionClosed(Session session, Throwable error) {}

    @Override
    public void onConsumerClosed(MessageConsumer consumer, Throwable error) {}

    @Override
    public void onProducerClosed(MessageProducer producer, Throwable error) {}
}
