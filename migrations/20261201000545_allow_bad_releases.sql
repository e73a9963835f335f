-- Rules may watch releases. There are at most a hundred rules of a tenant, so they are checked at once.
ALTER TABLE alert_rules DROP CONSTRAINT alert_rules_condition_check;
ALTER TABLE alert_rules ADD CONSTRAINT alert_rules_condition_check
    CHECK (condition IN ('new_group', 'regression', 'spike', 'missing_symbols', 'crash_free', 'frequent_group',
                         'growing_group', 'widespread_group', 'bad_release', 'figure', 'summary'));
