-- The functions that look across tenants, or do what the service may not do itself, are for the service and no one else.
-- Functions of triggers are for their triggers. A test lists all with their reasons.
DO $$
DECLARE
    definer regprocedure;
BEGIN
    FOR definer IN
        SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef
                                     AND prorettype <> 'trigger'::regtype
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', definer);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO unslide_service', definer);
    END LOOP;
END $$;
