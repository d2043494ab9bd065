package interop;

import java.util.Collections;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;

/** A user that may only consume from `secure.>`, by classes of the refusals. */
public final class Permissions {
    static final String READER = "reader";

    private static Session reader(Site site) throws Exception {
        return Site.auto(connection(site));
    }

    private static ActiveMQConnection connection(Site site) throws Exception {
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(READER, Site.PASSWORD, site.url);
        return site.start((ActiveMQConnection) factory.createConnection());
    }

    private static Queue secure(Site site, Session session) throws Exception {
        return session.createQueue("secure." + site.scenario);
    }

    private static void fill(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        Site.send(session, secure(site, session), "1", "2");
    }

    public void consumes(Site site) throws Exception {
        fill(site);
        Session session = reader(site);
        site.see("received", Site.take(session.createConsumer(secure(site, session)), 2));
    }

    public void browses(Site site) throws Exception {
        fill(site);
        Session session = reader(site);
        QueueBrowser browser = session.createBrowser(secure(site, session));
        site.see("browse", Site.outcome(() -> Collections.list(browser.getEnumeration())));
    }

    public void doesNotSend(Site site) throws Exception {
        fill(site);
        Session session = reader(site);
        site.see("producer", Site.outcome(() -> session.createProducer(secure(site, session))));
        MessageProducer anonymous = session.createProducer(null);
        Queue queue = secure(site, session);
        site.see("anonymous", Site.outcome(() -> anonymous.send(queue, session.createTextMessage("m"))));
        site.see("connection afterwards", Site.outcome(() -> session.createConsumer(secure(site, session))));
    }

    public void doesNotConsumeElsewhere(Site site) throws Exception {
        Session filling = Site.auto(site.connect());
        Site.send(filling, site.queue(filling), "m");
        Session session = reader(site);
        site.see("queue", Site.outcome(() -> session.createConsumer(site.queue(session))));
        site.see("topic", Site.outcome(() -> session.createConsumer(site.topic(session))));
        site.see("browser", Site.outcome(() -> session.createBrowser(site.queue(session)).getEnumeration()));
    }

    /** A queue that does not exist yet: to consume from it is to create it. */
    public void doesNotCreate(Site site) throws Exception {
        Session session = reader(site);
        site.see("queue", Site.outcome(() -> session.createConsumer(secure(site, session))));
        site.see("temporary queue", Site.outcome(() -> session.createTemporaryQueue()));
    }

    public void doesNotDelete(Site site) throws Exception {
        fill(site);
        ActiveMQConnection connection = connection(site);
        Session session = Site.auto(connection);
        org.apache.activemq.command.ActiveMQDestination queue =
                (org.apache.activemq.command.ActiveMQDestination) secure(site, session);
        site.see("delete", Site.outcome(() -> connection.destroyDestination(queue)));
        site.see("left", site.left("secure." + site.scenario));
    }

    /** In a transaction the refusal of a send without an answer must not be lost. */
    public void doesNotSendInTransaction(Site site) throws Exception {
        fill(site);
        Session session = Site.transacted(connection(site));
        MessageProducer anonymous = session.createProducer(null);
        site.see("send", Site.outcome(() -> anonymous.send(secure(site, session), session.createTextMessage("m"))));
        site.see("commit", Site.outcome(session::commit));
        site.see("left", site.left("secure." + site.scenario));
    }
}
