-- Up Migration

-- Empty where the program that applied the views did not say its version.
alter table sync.view_sets add column version text not null default '';
alter table sync.view_sets alter column version drop default;
