package browse

import (
	"time"

	"stampede/inventory"
)

// Preview is an item as its page will show it to shoppers.
type Preview struct {
	Item   shopItem   `json:"item"`
	Detail itemDetail `json:"detail"`
}

// PreviewOf renders an item of a plan, with none of its units taken.
func PreviewOf(s *Session, i *Item, d Detail, now time.Time) (p Preview, err error) {
	p.Item = shopItemOf(s, i, inventory.State{Total: int64(i.OnSale), Remaining: int64(i.OnSale)}, true, now)
	p.Detail, err = detailOf(i.ID, d)
	return p, err
}
