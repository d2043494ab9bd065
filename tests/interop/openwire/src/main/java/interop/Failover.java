package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;

/** The socket breaks, and the client's transport mends it: what the application sees. */
public final class Failover {
    private static ActiveMQConnection connect(Site site, Proxy proxy, String options) throws Exception {
        String url = "failover:(" + proxy.url() + ")?initialReconnectDelay=50&maxReconnectDelay=200" + options;
        return site.start((ActiveMQConnection)
                new ActiveMQConnectionFactory(Site.USER, Site.PASSWORD, url).createConnection());
    }

    public void producerGoesOn(Site site) throws Exception {
        try (Proxy proxy = new Proxy(site.url)) {
            Session session = Site.auto(connect(site, proxy, ""));
            MessageProducer producer = session.createProducer(site.queue(session));
            for (int index = 1; index <= 6; index++) {
                if (index % 2 == 0) {
                    proxy.cut();
                }
                producer.send(session.createTextMessage(String.valueOf(index)));
            }
            site.see("left", site.left(site.name("queue")));
        }
    }

    /** The broker stored it, but its answer was lost: the client sends the message again. */
    public void resendIsRecognized(Site site) throws Exception {
        try (Proxy proxy = new Proxy(site.url)) {
            Session session = Site.auto(connect(site, proxy, ""));
            MessageProducer producer = session.createProducer(site.queue(session));
            producer.send(session.createTextMessage("1"));
            proxy.silence();
            ExecutorService executor = Executors.newSingleThreadExecutor();
            Future<?> sending = executor.submit(() -> {
                producer.send(session.createTextMessage("2"));
                return null;
            });
            Thread.sleep(Site.QUIET_MS);
            site.see("waits for the answer", !sending.isDone());
            proxy.cut();
            sending.get(2 * Site.ARRIVES_MS, TimeUnit.MILLISECONDS);
            executor.shutdown();
            site.see("left", site.left(site.name("queue")));
        }
    }

    public void consumerGoesOn(Site site) throws Exception {
        try (Proxy proxy = new Proxy(site.url)) {
            Session session = Site.auto(connect(site, proxy, ""));
            MessageConsumer consumer = session.createConsumer(site.queue(session));
            Session sending = Site.auto(site.connect());
            Site.send(sending, site.queue(sending), "1");
            site.see("before", Site.next(consumer));
            proxy.cut();
            Site.send(sending, site.queue(sending), "2", "3");
            site.see("after", Site.take(consumer, 2));
            site.see("more", Site.rest(consumer));
        }
    }

    /** Received and not acknowledged when the socket broke. */
    public void unacknowledged(Site site) throws Exception {
        try (Proxy proxy = new Proxy(site.url)) {
            ActiveMQConnection connection = connect(site, proxy, "");
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Site.send(session, site.queue(session), "1", "2");
            MessageConsumer consumer = session.createConsumer(site.queue(session));
            site.see("before", Site.take(consumer, 1));
            proxy.cut();
            // What the client had in its buffer it forgets with the reconnect.
            Thread.sleep(2 * Site.QUIET_MS);
            List<Object> after = new ArrayList<>();
            Message last = null;
            for (Message m = consumer.receive(2000); m != null; m = consumer.receive(Site.QUIET_MS)) {
                after.add(List.of(Site.text(m), m.getJMSRedelivered()));
                last = m;
            }
            site.see("after", after);
            if (last != null) {
                last.acknowledge();
            }
            connection.close();
            site.see("left", site.left(site.name("queue")));
        }
    }

    /** Sends of an open transaction are sent again; nothing is doubled. */
    public void transactionOfSends(Site site) throws Exception {
        try (Proxy proxy = new Proxy(site.url)) {
            Session session = Site.transacted(connect(site, proxy, ""));
            MessageProducer producer = session.createProducer(site.queue(session));
            producer.send(session.createTextMessage("1"));
            proxy.cut();
            producer.send(session.createTextMessage("2"));
            // Which of the two depends on when the library hears of the break.
            boolean committed = Site.outcome(session::commit).equals("accepted");
            List<String> left = site.left(site.name("queue"));
            site.see("all or nothing", left.equals(committed ? List.of("1", "2") : List.of()));
        }
    }

    public void transactionOfReceives(Site site) throws Exception {
        try (Proxy proxy = new Proxy(site.url)) {
            ActiveMQConnection connection = connect(site, proxy, "");
            Session plain = Site.auto(connection);
            Site.send(plain, site.queue(plain), "1", "2");
            Session session = Site.transacted(connection);
            MessageConsumer consumer = session.createConsumer(site.queue(session));
            site.see("before", Site.take(consumer, 2));
            proxy.cut();
            Thread.sleep(Site.QUIET_MS);
            String commit = Site.outcome(session::commit);
            // The library may or may not have had the messages sent to it again when it commits.
            site.see("commit is one of", List.of("accepted", "TransactionRolledBackException").contains(commit));
            List<String> again = commit.equals("accepted") ? List.of() : Site.take(consumer, 2);
            if (!again.isEmpty()) {
                session.commit();
            }
            connection.close();
            site.see("left", site.left(site.name("queue")));
        }
    }

    /** The commit was sent, and its answer lost: the application must be told that it cannot know. */
    public void commitInDoubt(Site site) throws Exception {
        try (Proxy proxy = new Proxy(site.url)) {
            Session session = Site.transacted(connect(site, proxy, ""));
            MessageProducer producer = session.createProducer(site.queue(session));
            producer.send(session.createTextMessage("m"));
            Thread.sleep(200);
            proxy.silence();
            ExecutorService executor = Executors.newSingleThreadExecutor();
            Future<String> committing = executor.submit(() -> Site.outcome(session::commit));
            Thread.sleep(Site.QUIET_MS);
            proxy.cut();
            site.see("commit", committing.get(2 * Site.ARRIVES_MS, TimeUnit.MILLISECONDS));
            executor.shutdown();
            site.see("left", site.left(site.name("queue")));
        }
    }

    public void durableSubscription(Site site) throws Exception {
        try (Proxy proxy = new Proxy(site.url)) {
            ActiveMQConnection connection = connect(site, proxy, "&jms.clientID=" + site.name("id"));
            Session session = Site.auto(connection);
            MessageConsumer consumer = session.createDurableSubscriber(site.topic(session), "sub");
            Session sending = Site.auto(site.connect());
            Site.send(sending, site.topic(sending), "1");
            site.see("before", Site.next(consumer));
            proxy.cut();
            Site.send(sending, site.topic(sending), "2");
            site.see("after", Site.next(consumer));
        }
    }

    public void temporaryQueue(Site site) throws Exception {
        try (Proxy proxy = new Proxy(site.url)) {
            Session session = Site.auto(connect(site, proxy, ""));
            TemporaryQueue temporary = session.createTemporaryQueue();
            MessageConsumer consumer = session.createConsumer(temporary);
            proxy.cut();
            Site.send(session, temporary, "m");
            site.see("received", Site.next(consumer));
            Session other = Site.auto(site.connect());
            Thread.sleep(Site.QUIET_MS);
            site.see("another sends", Site.outcome(() -> Site.send(other, temporary, "n")));
            site.see("received from it", Site.next(consumer));
        }
    }

    /** Windows are restored after the reconnect, pull consumers included. */
    public void prefetch(Site site) throws Exception {
        try (Proxy proxy = new Proxy(site.url)) {
            ActiveMQConnection connection = connect(site, proxy, "");
            Session session = Site.auto(connection);
            MessageConsumer small = consumer(session, site.name("queue"), 2);
            MessageConsumer pull = consumer(session, site.name("pulled"), 0);
            proxy.cut();
            Session sending = Site.auto(site.connect());
            Site.send(sending, site.queue(sending), "1", "2", "3", "4", "5");
            Site.send(sending, sending.createQueue(site.name("pulled")), "1");
            site.see("window of 2", Site.take(small, 5));
            site.see("pull", Site.next(pull));
        }
    }

    private static MessageConsumer consumer(Session session, String queue, int prefetch) throws Exception {
        return session.createConsumer(session.createQueue(queue + "?consumer.prefetchSize=" + prefetch));
    }

    /** Without the failover transport the connection is over, and the application hears it. */
    public void plainTransport(Site site) throws Exception {
        try (Proxy proxy = new Proxy(site.url)) {
            ActiveMQConnection connection = site.start((ActiveMQConnection)
                    new ActiveMQConnectionFactory(Site.USER, Site.PASSWORD, proxy.url()).createConnection());
            List<String> heard = java.util.Collections.synchronizedList(new ArrayList<>());
            connection.setExceptionListener(exception -> heard.add(exception.getClass().getSimpleName()));
            Session session = Site.auto(connection);
            proxy.cut();
            Site.becomes(() -> !heard.isEmpty());
            site.see("listener", List.copyOf(heard));
            // The class depends on how far the library is with closing the connection.
            String send = Site.outcome(() -> Site.send(session, site.queue(session), "m"));
            site.see("send is refused", !send.equals("accepted"));
        }
    }

    /** The first connection is half dead when the client with the same id comes back. */
    public void clientIdAfterReconnect(Site site) throws Exception {
        try (Proxy proxy = new Proxy(site.url)) {
            ActiveMQConnection connection = connect(site, proxy, "&jms.clientID=" + site.name("id"));
            Session session = Site.auto(connection);
            for (int index = 0; index < 3; index++) {
                proxy.cut();
                Site.send(session, site.queue(session), "m" + index);
            }
            site.see("left", site.left(site.name("queue")));
        }
    }
}
