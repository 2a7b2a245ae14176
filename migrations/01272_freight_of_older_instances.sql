-- +goose Up
-- An instance of the release before gives a freight no currency, while an upgrade goes from one instance to the next or
-- after `stampede migrate --back`: it gets that of the activity's items, as in 01252.
CREATE FUNCTION seckill.lacks_freight_currency(checkout jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE
    RETURN (checkout ? 'freight' OR checkout ? 'free_from') AND NOT checkout ? 'currency';

-- +goose StatementBegin
CREATE FUNCTION seckill.give_freight_currency() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'items' THEN
        UPDATE seckill.activities SET checkout = checkout WHERE id = NEW.activity_id AND seckill.lacks_freight_currency(checkout);
        RETURN NULL;
    END IF;
    NEW.checkout := NEW.checkout || COALESCE((SELECT jsonb_build_object('currency', min(i.currency)) FROM seckill.items i
        WHERE i.activity_id = NEW.id HAVING min(i.currency) IS NOT NULL), '{}');
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER give_freight_currency BEFORE UPDATE ON seckill.activities
    FOR EACH ROW WHEN (seckill.lacks_freight_currency(NEW.checkout)) EXECUTE FUNCTION seckill.give_freight_currency();
CREATE TRIGGER give_freight_currency AFTER INSERT ON seckill.items
    FOR EACH ROW EXECUTE FUNCTION seckill.give_freight_currency();
