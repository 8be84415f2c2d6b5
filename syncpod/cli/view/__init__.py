"""How things look to a person: tables, descriptions, times, JSONPath. No connection is opened here."""
