-- Rules may send cards to Teams, Discord and Google Chat. There are at most a hundred rules of a tenant, so they are checked at once.
ALTER TABLE alert_rules DROP CONSTRAINT alert_rules_channel_check;
ALTER TABLE alert_rules ADD CONSTRAINT alert_rules_channel_check
    CHECK (channel IN ('webhook', 'slack', 'feishu', 'dingtalk', 'wecom', 'teams', 'discord', 'google_chat', 'pagerduty',
                       'opsgenie', 'mail', 'kafka'));
