package desk

import (
	"errors"
	"testing"

	"stampede/order"
	"stampede/order/orderevent"
	"stampede/platform/workshop/require"
)

// TestWhatHasChangedMeanwhileIsSaid: an order that was ready when it was looked at may have changed
// once its row is locked.
func TestWhatHasChangedMeanwhileIsSaid(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		resultReady: nil, resultAlready: notShippedError(resultAlready), resultNoOrder: order.ErrNoOrder, resultPickup: errNoParcel.With("way", "pickup"),
		resultRefunded: errNotShippable.With("order_status", orderevent.StatusRefunding), resultNotPaid: errNotShippable.With("order_status", orderevent.StatusClosed),
		resultFailed: errors.New("no connection"),
	} {
		require.Equal(t, "the result", resultOf(err), want)
		if sayings[want][0] == "" || sayings[want][1] == "" {
			t.Errorf("%s has no words in one of the languages", want)
		}
	}
}
