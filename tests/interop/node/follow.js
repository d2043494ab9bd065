// An application on rhea that goes where it is sent: `node follow.js PORT CONTAINER`. It prints a line of JSON with the
// ports where it was, the other brokers that it was told of, and what came back from a queue.

import rhea from "rhea";

const [port, container] = process.argv.slice(2);
const seen = { ports: [], others: [], conditions: [], received: [] };

function connect(at) {
  seen.ports.push(at);
  const connection = rhea.create_container({ id: container }).connect({ host: "127.0.0.1", port: at, reconnect: false });
  let sent = false;
  connection.on("connection_open", () => {
    const properties = connection.remote.open.properties ?? {};
    if (properties["amqp:connection-establishment-failed"]) return;
    seen.others = (properties["failover-server-list"] ?? []).map((each) => [each["network-host"], each.port]);
    connection.open_receiver(`of ${container}`);
    connection.open_sender(`of ${container}`);
  });
  connection.on("sendable", (context) => {
    if (!sent) context.sender.send({ body: "hello" });
    sent = true;
  });
  connection.on("message", (context) => {
    seen.received.push(context.message.body);
    context.delivery.accept();
    connection.close();
  });
  connection.on("connection_error", () => {
    const { condition, info } = connection.error;
    seen.conditions.push(condition);
    if (condition === "amqp:connection:redirect" && seen.ports.length < 3) connect(info.port);
  });
  connection.on("connection_close", () => {
    if (seen.received.length) console.log(JSON.stringify(seen));
  });
}

connect(Number(port));
