comment on table sync.erased is
  'Customers whose personal data was erased (npx shelfdesk erase) and stays out: later replies are reduced to ids, times and states before they are stored.';
comment on column sync.erased.erased_at is 'Time of the first erasure.';
comment on column sync.erased.found_again is
  'False if this customer was named in the request; true if a contact value identified it.';
comment on table sync.erased_tickets is
  'Tickets of erased customers. They stay erased, even if the source assigns them to another customer.';
comment on column sync.erased_tickets.erased_at is 'Time of the first erasure.';
comment on table sync.secret_erased is
  'Keyed hashes of contact values that identify an erased person under another customer id. The values cannot be derived from the hashes.';
comment on column sync.secret_erased.contact_hash is
  'HMAC-SHA-256 of a normalised contact value (sync.contact_forms), with the key of sync.secret_erasure, or with that of sync.secret_account_erasure.';
comment on column sync.secret_erased.erased_at is 'Time when the hash was first stored.';
comment on table sync.secret_erasure is
  'Key of the hashes in sync.secret_erased: one row of random bytes, different from the key of schema safe. Without the key, erased persons are not recognised.';
comment on column sync.secret_erasure.is_one is 'True; allows one row at most.';
comment on column sync.secret_erasure.inner_key is
  'The key, padded with zeros to 64 bytes, each XOR 0x36: start of the inner hash of HMAC.';
comment on column sync.secret_erasure.outer_key is
  'The key, padded with zeros to 64 bytes, each XOR 0x5C: start of the outer hash of HMAC.';

comment on table sync.secret_account_erasure is
  'Key of the hashes of an account that was moved from another warehouse: it keeps the key with which its hashes were made.';
comment on column sync.secret_account_erasure.account_id is 'The account.';
comment on column sync.secret_account_erasure.inner_key is 'As in sync.secret_erasure.';
comment on column sync.secret_account_erasure.outer_key is 'As in sync.secret_erasure.';

create or replace function sync.any_erased(account text) returns boolean
language plpgsql volatile
as $$
begin
  -- 'SHER': an erasure waits for running commits, and new commits wait for the erasure. The lock is taken before the
  -- lookup.
  perform pg_advisory_xact_lock_shared(1397245266, hashtext(account));
  if not exists (select from sync.erased e where e.account_id = account)
    and not exists (select from sync.secret_erased e where e.account_id = account) then return false; end if;
  if not exists (select from sync.secret_erasure) then
    raise exception 'the key in sync.secret_erasure is gone: erased persons would not be recognised, so nothing is stored in account %', account
      using hint = 'Bring its one row back from the dump that the database was restored from: docs/how-to/erase-a-person.md.';
  end if;
  return true;
end
$$;
comment on function sync.any_erased is
  'True if the account has erased people. Until the transaction ends no further erasure begins, so stored data stays screened.';

create or replace function sync.contact_hash(account text, form text) returns text
language sql stable parallel safe
begin atomic
  select sync.masked('erased', form, coalesce(o.inner_key, k.inner_key), coalesce(o.outer_key, k.outer_key))
  from sync.secret_erasure k left join sync.secret_account_erasure o on o.account_id = account;
end;
comment on function sync.contact_hash is 'Keyed hash of a normalised contact value, as in sync.secret_erased.';
