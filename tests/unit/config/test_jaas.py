"""The login configuration of Java, which two parts read: that of an instance in use, and migrations."""

from artemis_py.config.jaas import LoginModule, read_entries


def test_entries_have_their_modules_with_options_and_lines() -> None:
    """A URL is no comment, whether it is quoted or not."""
    text = """/* both
brokers */
ldap {
  org.example.LDAPLoginModule REQUIRED
    connectionURL="ldap://there:389"  // where
    other=ldap://here;
  // org.example.Gone required;
  org.example.Plain optional;
};
empty { };
"""
    assert read_entries(text) == {
        "ldap": [
            LoginModule(
                "LDAPLoginModule", "required", {"connectionURL": "ldap://there:389", "other": "ldap://here"}, 4
            ),
            LoginModule("Plain", "optional", {}, 8),
        ],
        "empty": [],
    }


def test_what_is_cut_short_ends_where_it_ends() -> None:
    """Nothing is guessed."""
    assert read_entries("one { a.B required x=") == {"one": [LoginModule("B", "required", {}, 1)]}
    assert read_entries("words { half") == {"words": []}
    assert read_entries("} ; = nothing") == {}
