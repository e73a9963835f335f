-- The secrets of receivers are encrypted, pagers acknowledge by hooks, messages have a link that mutes, and a test shows what was sent.
-- A tenant has at most a hundred rules, so the new key of each is written at once.
ALTER TABLE alert_rules
    -- The address and the secret of the receiver, encrypted with the key of the service. Then `address` is what may be shown of it,
    -- and `secret` is empty. NULL: the operator had set no key, or there is no secret.
    ADD COLUMN sealed_address bytea,
    ADD COLUMN sealed_secret bytea,
    -- The secret of the hooks of a pager. NULL: it acknowledges nothing here.
    ADD COLUMN sealed_hook_secret bytea,
    -- Signs the links of messages that mute the rule.
    ADD COLUMN link_key bytea NOT NULL DEFAULT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
        CHECK (length(link_key) = 32);

ALTER TABLE alert_messages
    -- Of a test: what was sent without its secrets, the status of the answer, and its text. NULL for other messages.
    ADD COLUMN test_request text,
    ADD COLUMN test_status integer,
    ADD COLUMN test_answer text;
