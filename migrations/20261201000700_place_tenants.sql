-- Where the data of a tenant is. A tenant that moves to another cell is in both for a while:
-- `here`      this cell serves it. All tenants of an installation with one cell.
-- `leaving`   no row of it may change until `frozen_until`: its last changes are being copied. Later it is `here` again.
-- `moved`     another cell serves it. `moved_to` is the prefix of that cell's topics, to which records are passed on.
-- `arriving`  its rows are being copied to this cell.
ALTER TABLE tenants
    ADD COLUMN place text NOT NULL DEFAULT 'here' CHECK (place IN ('here', 'leaving', 'moved', 'arriving')),
    ADD COLUMN frozen_until timestamptz,
    ADD COLUMN moved_to text CHECK (length(moved_to) <= 100),
    ADD CONSTRAINT tenants_place CHECK ((place = 'leaving') = (frozen_until IS NOT NULL) AND (place = 'moved') = (moved_to IS NOT NULL));
