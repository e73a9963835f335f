-- The scopes that sign-ins request, and the key that set the provider.
ALTER TABLE sign_in_providers
    -- NULL: chosen by the provider's document.
    ADD COLUMN scopes text[],
    -- NULL for providers of before. No reference: rows of keys end, and the provider stays.
    ADD COLUMN set_by uuid;
