-- create_schema
CREATE SCHEMA IF NOT EXISTS hooklatch
