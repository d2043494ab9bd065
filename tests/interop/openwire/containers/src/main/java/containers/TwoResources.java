package containers;

import com.arjuna.ats.arjuna.common.CoreEnvironmentBean;
import com.arjuna.ats.arjuna.common.ObjectStoreEnvironmentBean;
import com.arjuna.ats.arjuna.common.RecoveryEnvironmentBean;
import com.arjuna.ats.arjuna.common.recoveryPropertyManager;
import com.arjuna.ats.arjuna.recovery.RecoveryManager;
import com.arjuna.ats.arjuna.recovery.RecoveryModule;
import com.arjuna.ats.internal.arjuna.recovery.AtomicActionRecoveryModule;
import com.arjuna.ats.internal.jta.recovery.arjunacore.JTANodeNameXAResourceOrphanFilter;
import com.arjuna.ats.internal.jta.recovery.arjunacore.JTATransactionLogXAResourceOrphanFilter;
import com.arjuna.ats.internal.jta.recovery.arjunacore.XARecoveryModule;
import com.arjuna.ats.jta.common.JTAEnvironmentBean;
import com.arjuna.ats.jta.common.jtaPropertyManager;
import com.arjuna.ats.jta.recovery.XAResourceRecoveryHelper;
import com.arjuna.common.internal.util.propertyservice.BeanPopulator;
import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import jakarta.transaction.TransactionManager;
import java.nio.file.Path;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import javax.sql.XAConnection;
import javax.transaction.xa.XAResource;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQXAConnectionFactory;
import org.h2.jdbcx.JdbcDataSource;
import org.messaginghub.pooled.jms.JmsPoolXAConnectionFactory;

/**
 * Transactions over a broker and a database, led by Narayana, with connections of a pool.
 *
 * <p>Each takes a message from one queue, sends one to another and inserts a row. Arguments: the URL, a folder for the
 * database and the log, and what to do: `commit` and `rollback` end a transaction; `crash-in-prepare` ends the process
 * when the broker has prepared and the database has not; `crash-in-commit` ends it when both have and the decision is
 * in the log; `recover` lets the manager recover, and prints what there is.
 */
public final class TwoResources {
    private static final List<String> TEXTS = List.of("committed", "rolled-back", "undecided", "decided");
    private static final String OUT = "two.out";
    private static final long ARRIVES_MS = 5_000;

    private final String url;
    private final JdbcDataSource database = new JdbcDataSource();
    private final TransactionManager manager;

    private TwoResources(String url, Path folder) throws Exception {
        this.url = url;
        database.setURL("jdbc:h2:file:" + folder.resolve("rows"));
        try (java.sql.Connection connection = database.getConnection();
                Statement statement = connection.createStatement()) {
            statement.execute("create table if not exists results (text varchar(100))");
        }
        configure(folder.resolve("log").toString());
        manager = com.arjuna.ats.jta.TransactionManager.transactionManager();
    }

    private static void configure(String folder) throws Exception {
        BeanPopulator.getDefaultInstance(CoreEnvironmentBean.class).setNodeIdentifier("node1");
        for (String name : new String[] {null, "communicationStore", "stateStore"}) {
            ObjectStoreEnvironmentBean store = name == null
                    ? BeanPopulator.getDefaultInstance(ObjectStoreEnvironmentBean.class)
                    : BeanPopulator.getNamedInstance(ObjectStoreEnvironmentBean.class, name);
            store.setObjectStoreDir(folder);
        }
        JTAEnvironmentBean transactions = jtaPropertyManager.getJTAEnvironmentBean();
        transactions.setXaRecoveryNodes(List.of("node1"));
        transactions.setXaResourceOrphanFilterClassNames(List.of(
                JTATransactionLogXAResourceOrphanFilter.class.getName(),
                JTANodeNameXAResourceOrphanFilter.class.getName()));
        transactions.setOrphanSafetyInterval(200);
        RecoveryEnvironmentBean recovery = recoveryPropertyManager.getRecoveryEnvironmentBean();
        recovery.setRecoveryBackoffPeriod(1);
        recovery.setRecoveryModuleClassNames(
                List.of(AtomicActionRecoveryModule.class.getName(), XARecoveryModule.class.getName()));
        recovery.setExpiryScannerClassNames(List.of());
        recovery.setRecoveryActivatorClassNames(List.of());
    }

    public static void main(String[] arguments) throws Exception {
        TwoResources program = new TwoResources(arguments[0], Path.of(arguments[1]));
        switch (arguments[2]) {
            case "commit" -> program.work("committed", "none").commit();
            case "rollback" -> program.work("rolled-back", "none").rollback();
            case "crash-in-prepare" -> program.work("undecided", "prepare").commit();
            case "crash-in-commit" -> program.work("decided", "commit").commit();
            default -> program.recover();
        }
        System.exit(0);
    }

    /** Send a message, and begin a transaction that moves it; the database dies at the given step of the protocol. */
    private TransactionManager work(String text, String fatal) throws Exception {
        put(text);
        JmsPoolXAConnectionFactory pool = new JmsPoolXAConnectionFactory();
        pool.setTransactionManager(manager);
        pool.setConnectionFactory(new ActiveMQXAConnectionFactory("admin", "secret", url));
        XAConnection rows = database.getXAConnection();
        manager.begin();
        // Resources take each step in the order in which they are enlisted: in the first phase the broker has to come
        // first, in the second it has to come last.
        if (fatal.equals("commit")) {
            manager.getTransaction().enlistResource(new Dying(rows.getXAResource(), fatal));
        }
        Connection connection = pool.createConnection();
        connection.start();
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageConsumer consumer = session.createConsumer(session.createQueue(in(text)));
        TextMessage message = (TextMessage) consumer.receive(ARRIVES_MS);
        session.createProducer(session.createQueue(OUT)).send(session.createTextMessage(message.getText()));
        if (!fatal.equals("commit")) {
            manager.getTransaction().enlistResource(new Dying(rows.getXAResource(), fatal));
        }
        try (Statement statement = rows.getConnection().createStatement()) {
            statement.execute("insert into results values ('" + message.getText() + "')");
        }
        return manager;
    }

    /** A queue for each, so that none takes what another one left. */
    private static String in(String text) {
        return "two.in." + text;
    }

    private void put(String text) throws Exception {
        try (Connection connection = new ActiveMQConnectionFactory("admin", "secret", url).createConnection()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            session.createProducer(session.createQueue(in(text))).send(session.createTextMessage(text));
        }
    }

    /** Something that gives the recovery a resource. */
    private interface Source {
        XAResource resource() throws Exception;
    }

    private static XAResourceRecoveryHelper helper(Source source) {
        return new XAResourceRecoveryHelper() {
            @Override
            public boolean initialise(String parameters) {
                return true;
            }

            @Override
            public XAResource[] getXAResources() throws Exception {
                return new XAResource[] {source.resource()};
            }
        };
    }

    private void recover() throws Exception {
        RecoveryManager recovery = RecoveryManager.manager(RecoveryManager.DIRECT_MANAGEMENT);
        recovery.initialize();
        XAResource rows = database.getXAConnection().getXAResource();
        jakarta.jms.XAConnection connection =
                new ActiveMQXAConnectionFactory("admin", "secret", url).createXAConnection();
        connection.start();
        XAResource broker = connection.createXASession().getXAResource();
        Seen seen = new Seen();
        seen.see("prepared", prepared(broker));
        for (RecoveryModule module : recovery.getModules()) {
            if (module instanceof XARecoveryModule branches) {
                branches.addXAResourceRecoveryHelper(helper(() -> rows));
                branches.addXAResourceRecoveryHelper(helper(() -> broker));
            }
        }
        // A branch without a decision is taken for an orphan when it is still there some time later.
        for (int pass = 0; pass < 3; pass++) {
            recovery.scan();
            Thread.sleep(300);
        }
        seen.see("prepared afterwards", prepared(broker));
        connection.close();
        for (String text : TEXTS) {
            seen.see("left of " + text, texts(in(text)));
        }
        seen.see("out", texts(OUT));
        seen.see("rows", rows());
        seen.print();
    }

    private static int prepared(XAResource resource) throws Exception {
        return resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN).length;
    }

    /** Texts of what waits in a queue, which is empty then. */
    private String texts(String queue) throws Exception {
        List<String> found = new ArrayList<>();
        try (Connection connection = new ActiveMQConnectionFactory("admin", "secret", url).createConnection()) {
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
            for (Message m = consumer.receive(500); m != null; m = consumer.receive(500)) {
                found.add(((TextMessage) m).getText());
            }
        }
        return String.join(", ", found);
    }

    private String rows() throws Exception {
        List<String> found = new ArrayList<>();
        try (java.sql.Connection connection = database.getConnection();
                Statement statement = connection.createStatement();
                ResultSet results = statement.executeQuery("select text from results order by text")) {
            while (results.next()) {
                found.add(results.getString(1));
            }
        }
        return String.join(", ", found);
    }
}
