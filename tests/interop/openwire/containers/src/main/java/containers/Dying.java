package containers;

import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;

/** A resource at one step of which the process ends; not a `java.lang.reflect.Proxy`, which would be serializable. */
final class Dying implements XAResource {
    private final XAResource resource;
    private final String fatal;

    /** `fatal`: `prepare`, `commit`, or anything else for none. */
    Dying(XAResource resource, String fatal) {
        this.resource = resource;
        this.fatal = fatal;
    }

    private void die(String step) {
        if (step.equals(fatal)) {
            Runtime.getRuntime().halt(3);
        }
    }

    @Override
    public int prepare(Xid xid) throws XAException {
        die("prepare");
        return resource.prepare(xid);
    }

    @Override
    public void commit(Xid xid, boolean onePhase) throws XAException {
        die("commit");
        resource.commit(xid, onePhase);
    }

    @Override
    public void start(Xid xid, int flags) throws XAException {
        resource.start(xid, flags);
    }

    @Override
    public void end(Xid xid, int flags) throws XAException {
        resource.end(xid, flags);
    }

    @Override
    public void rollback(Xid xid) throws XAException {
        resource.rollback(xid);
    }

    @Override
    public void forget(Xid xid) throws XAException {
        resource.forget(xid);
    }

    @Override
    public Xid[] recover(int flag) throws XAException {
        return resource.recover(flag);
    }

    @Override
    public boolean isSameRM(XAResource other) throws XAException {
        return resource.isSameRM(other);
    }

    @Override
    public int getTransactionTimeout() throws XAException {
        return resource.getTransactionTimeout();
    }

    @Override
    public boolean setTransactionTimeout(int seconds) throws XAException {
        return resource.setTransactionTimeout(seconds);
    }
}
