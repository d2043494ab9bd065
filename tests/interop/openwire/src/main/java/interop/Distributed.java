package interop;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import javax.jms.XASession;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.ActiveMQXAConnection;
import org.apache.activemq.ActiveMQXAConnectionFactory;

/** Transactions that a transaction manager leads: the broker is one of several resources. */
public final class Distributed {
    /** A branch named by text; two with one text are the same branch. */
    private static final class Branch implements Xid {
        private final byte[] global;

        Branch(String name) {
            global = name.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public int getFormatId() {
            return 7;
        }

        @Override
        public byte[] getGlobalTransactionId() {
            return global.clone();
        }

        @Override
        public byte[] getBranchQualifier() {
            return new byte[] {1};
        }
    }

    private static ActiveMQXAConnection connect(Site site, String options) throws Exception {
        ActiveMQXAConnectionFactory factory =
                new ActiveMQXAConnectionFactory(Site.USER, Site.PASSWORD, site.url + options);
        return (ActiveMQXAConnection) site.start((ActiveMQXAConnection) factory.createXAConnection());
    }

    /** A call of the resource manager: its result, or the code of its refusal. */
    private interface Call {
        Object run() throws Exception;
    }

    private static Object result(Call call) throws Exception {
        try {
            return call.run();
        } catch (XAException refused) {
            return "XAException " + refused.errorCode;
        }
    }

    private static Object done(Site.Attempt attempt) throws Exception {
        return result(() -> {
            attempt.run();
            return "done";
        });
    }

    /** Is the branch among the prepared ones that the broker lists? */
    private static boolean listed(XAResource resource, Xid branch) throws Exception {
        for (Xid xid : resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN)) {
            if (Arrays.equals(xid.getGlobalTransactionId(), branch.getGlobalTransactionId())) {
                return true;
            }
        }
        return false;
    }

    private static Xid work(Site site, XASession session, String text) throws Exception {
        Xid branch = new Branch(site.name(text));
        session.getXAResource().start(branch, XAResource.TMNOFLAGS);
        Site.send(session, site.queue(session), text);
        session.getXAResource().end(branch, XAResource.TMSUCCESS);
        return branch;
    }

    public void twoPhases(Site site) throws Exception {
        XASession session = connect(site, "").createXASession();
        XAResource resource = session.getXAResource();
        Xid branch = work(site, session, "m");
        site.see("before prepare", site.left(site.name("queue")));
        site.see("prepare", result(() -> resource.prepare(branch)));
        site.see("listed", listed(resource, branch));
        site.see("before commit", site.left(site.name("queue")));
        site.see("commit", done(() -> resource.commit(branch, false)));
        site.see("listed after commit", listed(resource, branch));
        site.see("left", site.left(site.name("queue")));
        site.see("commit again", done(() -> resource.commit(branch, false)));
    }

    public void onePhase(Site site) throws Exception {
        XASession session = connect(site, "").createXASession();
        Xid branch = work(site, session, "m");
        site.see("commit", done(() -> session.getXAResource().commit(branch, true)));
        site.see("left", site.left(site.name("queue")));
    }

    public void rollback(Site site) throws Exception {
        XASession session = connect(site, "").createXASession();
        XAResource resource = session.getXAResource();
        Xid unprepared = work(site, session, "unprepared");
        site.see("unprepared", done(() -> resource.rollback(unprepared)));
        Xid prepared = work(site, session, "prepared");
        site.see("prepare", result(() -> resource.prepare(prepared)));
        site.see("prepared", done(() -> resource.rollback(prepared)));
        site.see("listed", listed(resource, prepared));
        site.see("left", site.left(site.name("queue")));
        site.see("again", done(() -> resource.rollback(prepared)));
    }

    public void acknowledgements(Site site) throws Exception {
        ActiveMQXAConnection connection = connect(site, "?jms.redeliveryPolicy.initialRedeliveryDelay=0");
        Session plain = Site.auto(site.connect());
        Site.send(plain, site.queue(plain), "1", "2", "3");
        XASession session = connection.createXASession();
        XAResource resource = session.getXAResource();
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        Xid branch = new Branch(site.name("branch"));
        resource.start(branch, XAResource.TMNOFLAGS);
        site.see("received", Site.take(consumer, 2));
        resource.end(branch, XAResource.TMSUCCESS);
        site.see("prepare", result(() -> resource.prepare(branch)));
        resource.rollback(branch);
        Xid second = new Branch(site.name("second"));
        resource.start(second, XAResource.TMNOFLAGS);
        site.see("after rollback", Site.take(consumer, 2));
        resource.end(second, XAResource.TMSUCCESS);
        site.see("prepare again", result(() -> resource.prepare(second)));
        resource.commit(second, false);
        connection.close();
        site.see("left", site.left(site.name("queue")));
    }

    /** A branch without work needs no second phase. */
    public void readOnly(Site site) throws Exception {
        XASession session = connect(site, "").createXASession();
        XAResource resource = session.getXAResource();
        Xid branch = new Branch(site.name("branch"));
        resource.start(branch, XAResource.TMNOFLAGS);
        resource.end(branch, XAResource.TMSUCCESS);
        Object prepared = result(() -> resource.prepare(branch));
        site.see("prepare", prepared);
        site.see("listed", listed(resource, branch));
        site.see("commit", done(() -> resource.commit(branch, false)));
    }

    /** The connection that prepared goes away; another finishes the branch. */
    public void recovery(Site site) throws Exception {
        ActiveMQXAConnection connection = connect(site, "");
        XASession session = connection.createXASession();
        Xid committed = work(site, session, "committed");
        Xid rolledBack = work(site, session, "rolled back");
        session.getXAResource().prepare(committed);
        session.getXAResource().prepare(rolledBack);
        connection.close();
        XAResource resource = connect(site, "").createXASession().getXAResource();
        site.see("listed", List.of(listed(resource, committed), listed(resource, rolledBack)));
        site.see("commit", done(() -> resource.commit(committed, false)));
        site.see("rollback", done(() -> resource.rollback(rolledBack)));
        site.see("left", site.left(site.name("queue")));
    }

    /** What was not prepared when the connection went is rolled back. */
    public void lostBeforePrepare(Site site) throws Exception {
        ActiveMQXAConnection connection = connect(site, "");
        Xid branch = work(site, connection.createXASession(), "m");
        connection.close();
        XAResource resource = connect(site, "").createXASession().getXAResource();
        site.see("listed", listed(resource, branch));
        site.see("commit", done(() -> resource.commit(branch, true)));
        site.see("left", site.left(site.name("queue")));
    }

    public void unknownBranch(Site site) throws Exception {
        XAResource resource = connect(site, "").createXASession().getXAResource();
        Xid unknown = new Branch(site.name("unknown"));
        site.see("prepare", result(() -> resource.prepare(unknown)));
        site.see("commit in one phase", done(() -> resource.commit(unknown, true)));
        site.see("commit in two phases", done(() -> resource.commit(unknown, false)));
        site.see("rollback", done(() -> resource.rollback(unknown)));
        site.see("forget", done(() -> resource.forget(unknown)));
    }

    public void forget(Site site) throws Exception {
        XASession session = connect(site, "").createXASession();
        XAResource resource = session.getXAResource();
        Xid branch = work(site, session, "m");
        resource.prepare(branch);
        site.see("forget a prepared one", done(() -> resource.forget(branch)));
        site.see("listed", listed(resource, branch));
        site.see("rollback", done(() -> resource.rollback(branch)));
        site.see("left", site.left(site.name("queue")));
    }

    /** Commit in two phases without a prepare. */
    public void notPrepared(Site site) throws Exception {
        XASession session = connect(site, "").createXASession();
        XAResource resource = session.getXAResource();
        Xid branch = work(site, session, "m");
        site.see("commit", done(() -> resource.commit(branch, false)));
        site.see("rollback", done(() -> resource.rollback(branch)));
        site.see("left", site.left(site.name("queue")));
    }

    /** One branch over two connections: they are one resource manager. */
    public void sameResourceManager(Site site) throws Exception {
        XAResource first = connect(site, "").createXASession().getXAResource();
        XAResource second = connect(site, "").createXASession().getXAResource();
        site.see("same", first.isSameRM(second));
    }

    public void suspendAndResume(Site site) throws Exception {
        XASession session = connect(site, "").createXASession();
        XAResource resource = session.getXAResource();
        Xid branch = new Branch(site.name("branch"));
        resource.start(branch, XAResource.TMNOFLAGS);
        Site.send(session, site.queue(session), "1");
        resource.end(branch, XAResource.TMSUSPEND);
        site.see("resume", done(() -> resource.start(branch, XAResource.TMRESUME)));
        Site.send(session, site.queue(session), "2");
        resource.end(branch, XAResource.TMSUCCESS);
        site.see("prepare", result(() -> resource.prepare(branch)));
        site.see("commit", done(() -> resource.commit(branch, false)));
        site.see("left", site.left(site.name("queue")));
    }

    /** The socket breaks between the phases, and the failover transport replays what it knows of the branch. */
    public void brokenBetweenThePhases(Site site) throws Exception {
        for (String end : List.of("commit", "rollback")) {
            try (Proxy proxy = new Proxy(site.url)) {
                String url = "failover:(" + proxy.url() + ")?initialReconnectDelay=50&maxReconnectDelay=200";
                ActiveMQXAConnection connection = (ActiveMQXAConnection) site.start((ActiveMQXAConnection)
                        new ActiveMQXAConnectionFactory(Site.USER, Site.PASSWORD, url).createXAConnection());
                List<String> heard = java.util.Collections.synchronizedList(new java.util.ArrayList<>());
                connection.setExceptionListener(exception -> heard.add(exception.toString()));
                XASession session = connection.createXASession();
                XAResource resource = session.getXAResource();
                Xid branch = new Branch(site.name(end));
                String queue = site.name("queue of " + end);
                resource.start(branch, XAResource.TMNOFLAGS);
                Site.send(session, session.createQueue(queue), "1", "2");
                resource.end(branch, XAResource.TMSUCCESS);
                site.see(end + ": prepare", result(() -> resource.prepare(branch)));
                proxy.cut();
                Thread.sleep(Site.QUIET_MS);
                site.see(end + ": listed", listed(resource, branch));
                site.see(end, done(() -> {
                    if (end.equals("commit")) {
                        resource.commit(branch, false);
                    } else {
                        resource.rollback(branch);
                    }
                }));
                site.see(end + ": left", site.left(queue));
                site.see(end + ": heard", List.copyOf(heard));
                Branch next = new Branch(site.name(end + " next"));
                resource.start(next, XAResource.TMNOFLAGS);
                Site.send(session, session.createQueue(queue), "3");
                resource.end(next, XAResource.TMSUCCESS);
                site.see(end + ": next", done(() -> resource.commit(next, true)));
                site.see(end + ": left of next", site.left(queue));
            }
        }
    }

    /** The socket breaks while a branch is open: its work is replayed, and nothing is doubled. */
    public void brokenWithinABranch(Site site) throws Exception {
        try (Proxy proxy = new Proxy(site.url)) {
            String url = "failover:(" + proxy.url() + ")?initialReconnectDelay=50&maxReconnectDelay=200";
            ActiveMQXAConnection connection = (ActiveMQXAConnection) site.start((ActiveMQXAConnection)
                    new ActiveMQXAConnectionFactory(Site.USER, Site.PASSWORD, url).createXAConnection());
            XASession session = connection.createXASession();
            XAResource resource = session.getXAResource();
            Xid branch = new Branch(site.name("branch"));
            resource.start(branch, XAResource.TMNOFLAGS);
            Site.send(session, site.queue(session), "1");
            proxy.cut();
            Thread.sleep(Site.QUIET_MS);
            Site.send(session, site.queue(session), "2");
            resource.end(branch, XAResource.TMSUCCESS);
            Object prepared = result(() -> resource.prepare(branch));
            Object committed = prepared.equals(0) ? done(() -> resource.commit(branch, false)) : "not tried";
            List<String> left = site.left(site.name("queue"));
            site.see("all or nothing", left.equals(committed.equals("done") ? List.of("1", "2") : List.of()));
        }
    }

    static void prepareForRestart(Site site) throws Exception {
        XASession session = connect(site, "").createXASession();
        for (String text : List.of("committed", "rolled back")) {
            session.getXAResource().prepare(work(site, session, text));
        }
    }

    static void finishAfterRestart(Site site) throws Exception {
        XAResource resource = connect(site, "").createXASession().getXAResource();
        Xid committed = new Branch(site.name("committed"));
        Xid rolledBack = new Branch(site.name("rolled back"));
        site.see("listed", List.of(listed(resource, committed), listed(resource, rolledBack)));
        site.see("commit", done(() -> resource.commit(committed, false)));
        site.see("rollback", done(() -> resource.rollback(rolledBack)));
        site.see("listed afterwards", List.of(listed(resource, committed), listed(resource, rolledBack)));
        site.see("left", site.left(site.name("queue")));
    }
}
