// A message that its reader writes, to a queue or an address.

import { perform } from "./api.js";
import { areaField, ask, flagField, sentence, textField } from "./dialog.js";
import { button } from "./dom.js";
import { counted, plain } from "./format.js";
import { allow } from "./rights.js";

/** Return the button that opens the dialog; `kind` is "queue" or "address". */
export function sendButton(app, kind, name, where, missing) {
  return allow(button("Send…", () => send(app, kind, name, where)), missing, "sendMessage");
}

function send(app, kind, name, where) {
  ask({
    title: "Send a message",
    says: [sentence(`The message goes to ${kind} `, name, ".")],
    fields: [
      areaField("body", "Body"),
      textField("contentType", "Content type", { hint: "Such as application/json; may be empty" }),
      textField("properties", "Properties",
        { initial: "{}", hint: 'A JSON object, such as {"colour": "red", "size": 3}' }),
      flagField("durable", "Durable", true),
    ],
    verb: "Send 1 message",
    isHarmless: true,
    run: async ({ body, contentType, properties, durable }) => {
      const wanted = { body, durable, properties: objectOf(properties) };
      const { queueCount } = await perform(where, "sendMessage",
        contentType === "" ? wanted : { ...wanted, contentType });
      return queueCount === 0 ? `Sent to ${plain(name)}, and no queue took the message.`
        : `Sent: ${counted(queueCount, "queue")} of ${plain(name)} took the message.`;
    },
  }, app);
}

function objectOf(text) {
  try {
    return JSON.parse(text || "{}");
  } catch {
    throw new Error("The properties are not JSON.");
  }
}
