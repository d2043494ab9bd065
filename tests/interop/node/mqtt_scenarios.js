// What MQTT.js must be able to do with the broker. One scenario per run: `node mqtt_scenarios.js NAME URL VERSION TOPIC`;
// `--list` prints the names. A failed assertion is the exit code 1 and a stack on stderr.

import assert from "node:assert/strict";
import mqtt from "mqtt";

const STEP_TIMEOUT_MS = 20_000;

/** A connected client that collects its messages; it never connects again by itself. */
async function connect(url, version, options = {}) {
  const names = version === 3 ? { protocolId: "MQIsdp" } : {};
  const client = await mqtt.connectAsync(url, {
    protocolVersion: version, reconnectPeriod: 0, connectTimeout: STEP_TIMEOUT_MS,
    clientId: `js${Math.random().toString(16).slice(2)}`, ...names, ...options,
  });
  client.inbox = [];
  client.on("message", (topic, payload, packet) => {
    client.inbox.push({ topic, payload: payload.toString(), packet });
    client.emit("inbox");
  });
  return client;
}

/** The next messages. */
async function receive(client, count) {
  const deadline = Date.now() + STEP_TIMEOUT_MS;
  while (client.inbox.length < count) {
    const left = deadline - Date.now();
    assert.ok(left > 0, `only ${client.inbox.length} of ${count} messages came`);
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, left);
      client.once("inbox", () => { clearTimeout(timer); resolve(); });
    });
  }
  return client.inbox.splice(0, count);
}

const payloads = (messages) => messages.map((message) => message.payload);
const kept = (version) => ({ clean: false, ...(version === 5 ? { properties: { sessionExpiryInterval: 3600 } } : {}) });

const scenarios = {
  async every_qos_arrives_in_order(url, version, topic) {
    const subscriber = await connect(url, version);
    const publisher = await connect(url, version);
    for (const qos of [0, 1, 2]) {
      await subscriber.subscribeAsync(`${topic}/${qos}`, { qos });
      const wanted = Array.from({ length: 100 }, (_, index) => `${index}`);
      for (let index = 0; index < 100; index += 10) { // MQTT.js does not look at the receive maximum
        const part = wanted.slice(index, index + 10);
        await Promise.all(part.map((payload) => publisher.publishAsync(`${topic}/${qos}`, payload, { qos })));
      }
      const messages = await receive(subscriber, 100);
      assert.deepEqual(payloads(messages), wanted);
      assert.ok(messages.every((message) => message.packet.qos === qos));
    }
    await Promise.all([subscriber.endAsync(), publisher.endAsync()]);
  },

  async kept_session_collects_messages(url, version, topic) {
    const clientId = `${topic}-js`;
    const first = await connect(url, version, { clientId, ...kept(version) });
    await first.subscribeAsync(topic, { qos: 2 });
    await first.endAsync();
    const publisher = await connect(url, version);
    await publisher.publishAsync(topic, "1", { qos: 1 });
    await publisher.publishAsync(topic, "2", { qos: 2 });
    const again = mqtt.connect(url, {
      protocolVersion: version, reconnectPeriod: 0, clientId, ...(version === 3 ? { protocolId: "MQIsdp" } : {}), ...kept(version),
    });
    again.inbox = [];
    again.on("message", (name, payload) => { again.inbox.push({ payload: payload.toString() }); again.emit("inbox"); });
    assert.deepEqual(payloads(await receive(again, 2)), ["1", "2"]);
    await Promise.all([again.endAsync(), publisher.endAsync()]);
  },

  async retained_message_is_sent_and_cleared(url, version, topic) {
    const client = await connect(url, version);
    await client.publishAsync(`${topic}/a`, "kept", { qos: 1, retain: true });
    await client.subscribeAsync(`${topic}/#`, { qos: 1 });
    const [message] = await receive(client, 1);
    assert.equal(message.payload, "kept");
    assert.equal(message.packet.retain, true);
    await client.publishAsync(`${topic}/a`, "", { qos: 1, retain: true });
    await receive(client, 1);
    const late = await connect(url, version);
    await late.subscribeAsync(`${topic}/#`, { qos: 1 });
    await late.publishAsync(`${topic}/b`, "live", { qos: 1 });
    assert.deepEqual(payloads(await receive(late, 1)), ["live"]);
    await Promise.all([client.endAsync(), late.endAsync()]);
  },

  async will_is_published_for_a_broken_connection(url, version, topic) {
    const watcher = await connect(url, version);
    await watcher.subscribeAsync(topic, { qos: 1 });
    const doomed = await connect(url, version, { will: { topic, payload: Buffer.from("gone"), qos: 1 } });
    doomed.on("error", () => {});
    doomed.stream.destroy();
    assert.deepEqual(payloads(await receive(watcher, 1)), ["gone"]);
    await watcher.endAsync();
  },

  async unsubscribed_topic_is_silent(url, version, topic) {
    const client = await connect(url, version);
    await client.subscribeAsync([`${topic}/a`, `${topic}/b`], { qos: 1 });
    await client.unsubscribeAsync(`${topic}/a`);
    await client.publishAsync(`${topic}/a`, "no", { qos: 1 });
    await client.publishAsync(`${topic}/b`, "yes", { qos: 1 });
    assert.deepEqual(payloads(await receive(client, 1)), ["yes"]);
    await client.endAsync();
  },

  async large_message_arrives(url, version, topic) {
    const client = await connect(url, version);
    await client.subscribeAsync(topic, { qos: 1 });
    const payload = "0123456789".repeat(100_000);
    await client.publishAsync(topic, payload, { qos: 1 });
    const [message] = await receive(client, 1);
    assert.equal(message.payload, payload);
    await client.endAsync();
  },

  async properties_of_version_5_arrive(url, version, topic) {
    if (version !== 5) return;
    const client = await connect(url, version);
    await client.subscribeAsync(topic, { qos: 1, properties: { subscriptionIdentifier: 7 } });
    const properties = {
      payloadFormatIndicator: true, contentType: "text/plain", responseTopic: "answers",
      correlationData: Buffer.from([0, 1, 255]), userProperties: { a: ["1", "2"], b: "3" },
    };
    await client.publishAsync(topic, "m", { qos: 1, properties });
    const [{ packet }] = await receive(client, 1);
    assert.equal(packet.properties.contentType, "text/plain");
    assert.equal(packet.properties.responseTopic, "answers");
    assert.deepEqual([...packet.properties.correlationData], [0, 1, 255]);
    assert.deepEqual({ ...packet.properties.userProperties }, { a: ["1", "2"], b: "3" });
    assert.equal(packet.properties.subscriptionIdentifier, 7);
    await client.endAsync();
  },
};

const [name, url, version, topic] = process.argv.slice(2);
if (name === "--list") {
  console.log(Object.keys(scenarios).join("\n"));
} else {
  scenarios[name](url, Number(version), topic).then(
    () => process.exit(0),
    (error) => {
      console.error(error.stack ?? error);
      process.exit(1);
    },
  );
}
