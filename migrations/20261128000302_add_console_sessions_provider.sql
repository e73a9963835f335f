-- Sessions of people: the provider's id of its session, which its notice of a sign-out names, and the page after a sign-out.
ALTER TABLE console_sessions
    ADD COLUMN provider_session text,
    ADD COLUMN sign_out_path text;
