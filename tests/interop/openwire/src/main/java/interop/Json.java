package interop;

import java.util.Collection;
import java.util.Map;
import java.util.stream.Collectors;

/** Text of an observation: maps, lists, strings, numbers, booleans and null. */
final class Json {
    private Json() {}

    static String text(Object value) {
        if (value == null || value instanceof Boolean || value instanceof Number) {
            return String.valueOf(value);
        }
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream()
                    .map(entry -> quoted(String.valueOf(entry.getKey())) + ": " + text(entry.getValue()))
                    .collect(Collectors.joining(", ", "{", "}"));
        }
        if (value instanceof Collection<?> values) {
            return values.stream().map(Json::text).collect(Collectors.joining(", ", "[", "]"));
        }
        return quoted(String.valueOf(value));
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char unit : text.toCharArray()) {
            if (unit == '"' || unit == '\\') {
                quoted.append('\\').append(unit);
            } else if (unit < 0x20 || unit > 0x7e) {
                quoted.append(String.format("\\u%04x", (int) unit));
            } else {
                quoted.append(unit);
            }
        }
        return quoted.append('"').toString();
    }
}
