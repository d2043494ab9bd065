package containers;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;

/** What a program saw, printed as a line of JSON: numbers, truth values, and texts without quotes. */
final class Seen {
    private final Map<String, Object> values = new LinkedHashMap<>();

    void see(String what, Object value) {
        values.put(what, value);
    }

    void print() {
        System.out.println(values.entrySet().stream()
                .map(entry -> "\"" + entry.getKey() + "\": " + json(entry.getValue()))
                .collect(Collectors.joining(", ", "{", "}")));
    }

    private static String json(Object value) {
        return value instanceof Number || value instanceof Boolean ? value.toString() : "\"" + value + "\"";
    }
}
