-- +goose Up
-- A freight has a currency of its own, that of the activity's items.
UPDATE seckill.activities a
SET checkout = checkout || jsonb_build_object('currency',
    COALESCE((SELECT min(i.currency) FROM seckill.items i WHERE i.activity_id = a.id), 'CNY'))
WHERE (checkout ? 'freight' OR checkout ? 'free_from') AND NOT checkout ? 'currency';
