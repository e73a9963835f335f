-- In a transaction of its own: it reads the table while others write to it.
ALTER TABLE metric_days VALIDATE CONSTRAINT metric_days_dimension_check;
