package interop;

import java.util.ArrayList;
import java.util.List;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.command.ConnectionControl;
import org.apache.activemq.command.ConsumerInfo;
import org.apache.activemq.command.ControlCommand;
import org.apache.activemq.command.FlushCommand;

/** Logins, client ids, and what a connection hears when something is wrong. */
public final class Connections {
    private static String login(Site site, String user, String password) {
        return Site.outcome(() -> {
            ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(user, password, site.url);
            Site.auto(site.start((ActiveMQConnection) factory.createConnection()));
        });
    }

    public void logins(Site site) throws Exception {
        site.see("right", login(site, Site.USER, Site.PASSWORD));
        site.see("wrong password", login(site, Site.USER, "wrong"));
        site.see("unknown user", login(site, "nobody", Site.PASSWORD));
        site.see("no password", login(site, Site.USER, null));
        site.see("no login", login(site, null, null));
    }

    public void clientIdInUse(Site site) throws Exception {
        ActiveMQConnection first = Durable.identified(site, "id");
        Session session = Site.auto(first);
        site.see("second", Site.outcome(() -> Durable.identified(site, "id")));
        Site.send(session, site.queue(session), "m");
        site.see("first goes on", site.left(site.name("queue")));
        first.close();
        site.see("after the first closed", Site.outcome(() -> Durable.identified(site, "id")));
    }

    public void clientIdSetLate(Site site) throws Exception {
        ActiveMQConnection connection = (ActiveMQConnection) site.factory("").createConnection();
        connection.setClientID(site.name("id"));
        site.start(connection);
        site.see("set again", Site.outcome(() -> connection.setClientID("other")));
        connection.close();
    }

    /** Commands that no application sends: the connection must live on. */
    public void oddCommands(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = Site.auto(connection);
        site.see("control", Site.outcome(() -> connection.syncSendPacket(new ControlCommand())));
        site.see("flush", Site.outcome(() -> connection.syncSendPacket(new FlushCommand())));
        site.see("connection control", Site.outcome(() -> connection.syncSendPacket(new ConnectionControl())));
        ConsumerInfo info = Temporary.consumer(connection, "queue://" + site.name("queue"));
        site.see("consumer", Site.outcome(() -> connection.syncSendPacket(info)));
        site.see("same consumer again", Site.outcome(() -> connection.syncSendPacket(info)));
        site.see("remove it", Site.outcome(() -> connection.syncSendPacket(info.createRemoveCommand())));
        site.see("remove it again", Site.outcome(() -> connection.syncSendPacket(info.createRemoveCommand())));
        Site.send(session, site.queue(session), "alive");
        site.see("connection afterwards", Site.next(session.createConsumer(site.queue(session))));
    }

    /** A consumer on a session that was never opened. */
    public void unknownSession(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = Site.auto(connection);
        ConsumerInfo info = Temporary.consumer(connection, "queue://" + site.name("queue"));
        info.getConsumerId().setSessionId(4711);
        site.see("consumer", Site.outcome(() -> connection.syncSendPacket(info)));
        Site.send(session, site.queue(session), "alive");
        site.see("connection afterwards", Site.next(session.createConsumer(site.queue(session))));
    }

    /** What a failure of a command without an answer does. */
    public void failureWithoutRequest(Site site) throws Exception {
        ActiveMQConnection connection = site.connect("?jms.watchTopicAdvisories=false&jms.useAsyncSend=true");
        List<String> heard = java.util.Collections.synchronizedList(new ArrayList<>());
        connection.setExceptionListener(exception -> heard.add(exception.getClass().getSimpleName()));
        Session session = Site.auto(connection);
        javax.jms.TemporaryQueue gone = Site.auto(site.connect()).createTemporaryQueue();
        javax.jms.MessageProducer producer = session.createProducer(null);
        gone.delete();
        site.see("send", Site.outcome(() -> producer.send(gone, session.createTextMessage("m"))));
        Site.becomes(() -> !heard.isEmpty());
        site.see("listener", List.copyOf(heard));
        site.see("connection afterwards", Site.outcome(() -> Site.send(session, site.queue(session), "alive")));
        Session reading = Site.auto(site.connect());
        site.see("left", Site.take(reading.createConsumer(site.queue(reading)), 1));
    }

    public void brokerInfo(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Site.auto(connection);
        site.see("name known", connection.getBrokerName() != null);
        site.see("id known", connection.getBrokerInfo().getBrokerId().getValue() != null);
        site.see("url known", connection.getBrokerInfo().getBrokerURL() != null);
        site.see("slave", connection.getBrokerInfo().isSlaveBroker());
        site.see("fault tolerant", connection.getBrokerInfo().isFaultTolerantConfiguration());
    }
}
