package interop;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** A way to the broker that can be cut: clients see what they see when a network fails. */
final class Proxy implements AutoCloseable {
    private final URI broker;
    private final ServerSocket server;
    private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
    /** While set, what the broker says does not reach the client. */
    private volatile boolean deaf;
    /** While set, nothing passes either way, and no socket closes. */
    private volatile boolean frozen;

    Proxy(String url) throws IOException {
        broker = URI.create(url);
        server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        daemon(this::accept);
    }

    String url() {
        return "tcp://127.0.0.1:" + server.getLocalPort();
    }

    /** Lose all answers from now until the cut. */
    void silence() {
        deaf = true;
    }

    /** Let nothing pass from now until the cut, as if a cable were pulled. */
    void freeze() {
        frozen = true;
    }

    /** Break every connection; the next one is let through. */
    void cut() {
        for (Socket socket : sockets) {
            quietly(socket);
        }
        sockets.clear();
        deaf = false;
        frozen = false;
    }

    private void accept() {
        try {
            while (true) {
                Socket client = server.accept();
                Socket peer = new Socket(broker.getHost(), broker.getPort());
                sockets.add(client);
                sockets.add(peer);
                daemon(() -> pump(client, peer, false));
                daemon(() -> pump(peer, client, true));
            }
        } catch (IOException closed) {
            cut();
        }
    }

    private void pump(Socket from, Socket to, boolean answers) {
        byte[] buffer = new byte[65536];
        try {
            InputStream input = from.getInputStream();
            OutputStream output = to.getOutputStream();
            for (int size = input.read(buffer); size >= 0; size = input.read(buffer)) {
                if (!frozen && !(answers && deaf)) {
                    output.write(buffer, 0, size);
                }
            }
        } catch (IOException broken) {
            // The other direction ends too.
        }
        quietly(from);
        quietly(to);
    }

    private static void quietly(Socket socket) {
        try {
            socket.close();
        } catch (IOException ignored) {
            // It is gone either way.
        }
    }

    private static void daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void close() {
        try {
            server.close();
        } catch (IOException ignored) {
            // It is gone either way.
        }
        cut();
    }
}
