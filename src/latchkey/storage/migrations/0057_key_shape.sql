-- An API key may get its V2 replies in the vendor's shape.
alter table api_keys add column shape text not null default 'latchkey' check (shape in ('latchkey', 'vendor'));
