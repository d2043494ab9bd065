package interop;

import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQMessageProducer;
import org.apache.activemq.AsyncCallback;

/**
 * A limit that refuses: the sender hears it, and the connection lives.
 *
 * <p>All of them run after the restart: whether Classic refuses or blocks is one setting of the whole broker, and
 * before the restart it blocks.
 */
public final class Full {
    private static Queue queue(Site site, Session session) throws Exception {
        return session.createQueue("full.fail." + site.scenario);
    }

    public void refusesAfter(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageProducer producer = session.createProducer(queue(site, session));
        String outcome = "accepted";
        int sent = 0;
        while (sent < 100 && outcome.equals("accepted")) {
            outcome = Site.outcome(() -> producer.send(Flow.large(session)));
            sent++;
        }
        site.see("refused with", outcome);
        MessageConsumer consumer = session.createConsumer(queue(site, session));
        int received = 0;
        while (consumer.receive(Site.QUIET_MS) != null) {
            received++;
        }
        site.see("all accepted ones are there", received == sent - 1);
        site.see("afterwards", Site.outcome(() -> producer.send(Flow.large(session))));
    }

    public void refusesInTransactionAfter(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = Site.transacted(connection);
        MessageProducer producer = session.createProducer(queue(site, session));
        site.see("sends", Site.outcome(() -> {
            for (int index = 0; index < 50; index++) {
                producer.send(Flow.large(session));
            }
        }));
        site.see("commit", Site.outcome(session::commit));
        Session reading = Site.auto(connection);
        site.see("queue is empty", reading.createConsumer(queue(site, reading)).receive(Site.QUIET_MS) == null);
    }

    /** The confirmation of an asynchronous send, and its failure. */
    public void refusesAsynchronouslyAfter(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        for (Queue queue : List.of(site.queue(session), queue(site, session))) {
            ActiveMQMessageProducer producer = (ActiveMQMessageProducer) session.createProducer(queue);
            AtomicInteger succeeded = new AtomicInteger();
            AtomicReference<String> failed = new AtomicReference<>();
            for (int index = 0; index < 20; index++) {
                producer.send(Flow.large(session), new AsyncCallback() {
                    @Override
                    public void onSuccess() {
                        succeeded.incrementAndGet();
                    }

                    @Override
                    public void onException(JMSException exception) {
                        failed.set(exception.getClass().getSimpleName());
                    }
                });
            }
            Site.becomes(() -> succeeded.get() == 20 || failed.get() != null);
            site.see(queue.getQueueName().startsWith("full") ? "full" : "not full", failed.get());
        }
    }
}
