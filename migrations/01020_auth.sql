-- +goose Up
-- A QR login lasts minutes, and one that 0.9 let a phone scan has no number that the phone could name: the devices
-- request new ones.
DELETE FROM auth.qr_logins;
ALTER TABLE auth.qr_logins
    -- The requesting device shows it from the scan on, and the phone has to name it.
    ADD COLUMN number smallint CHECK (number BETWEEN 10 AND 99),
    -- As in account.logins.
    ADD CONSTRAINT qr_logins_device_kind_check CHECK (device_kind IN ('web', 'ios', 'android', 'wechat', 'desktop', 'other')),
    ADD CONSTRAINT qr_logins_device_id_check CHECK (octet_length(device_id) <= 128),
    ADD CONSTRAINT qr_logins_device_name_check CHECK (length(device_name) <= 64);
