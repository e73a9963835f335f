-- How a directory names the people of an identity provider, and whether its groups decide scopes.
ALTER TABLE sign_in_providers
    -- The claim of tokens with the id that the directory has for the person. NULL: the subject.
    ADD COLUMN directory_claim text,
    -- True: the groups of the directory count, and those of tokens do not.
    ADD COLUMN uses_directory_groups boolean NOT NULL DEFAULT false;
-- The value of that claim at the last sign-in. NULL: it is the subject.
ALTER TABLE people ADD COLUMN directory_id text;
