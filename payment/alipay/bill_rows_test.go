package alipay

import (
	"context"
	"strings"
	"testing"

	"stampede/payment/internal/company"
	"stampede/payment/provider"
	"stampede/platform/base/clock"
	"stampede/platform/workshop/require"
)

// Alipay quotes no cell, and a product's name may begin with a quotation mark: such a
// row takes no other row with it.
func TestBillRowsWithQuotationMarks(t *testing.T) {
	t.Parallel()
	const header = "#支付宝业务明细查询\r\n支付宝交易号,商户订单号,业务类型,商品名称,完成时间,订单金额（元）,服务费（元）\r\n"
	row := func(trade, name string) string {
		return trade + "\t,0198f2c8b5d07c3e9a4f1b2c3d4e5f60\t,交易," + name + ",2026-11-22 10:00:00,12.34,0.07\r\n"
	}
	for _, name := range []string{"跑鞋", `"限量"跑鞋`, `"限量`, `跑"鞋`, `"跑鞋, 黑"`} {
		var got []provider.Line
		err := details.Read(strings.NewReader(header+row("1", name)+row("2", name)+row("3", "跑鞋")+"#-----业务明细列表结束-----\r\n"), func(l provider.Line) bool {
			got = append(got, l)
			return true
		})
		if err != nil || len(got) != 3 || got[1].Transaction != "2" || got[1].Amount != 1234 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestSubjectHasNoCharacterThatAlipayRefuses(t *testing.T) {
	t.Parallel()
	if got := subject("H&M 1/2, \"a=b\"\n"); strings.ContainsAny(got, "&/,=\"\n") || !strings.HasPrefix(got, "H") {
		t.Errorf("subject %q", got)
	}
	require.Equal(t, "characters", len([]rune(subject(strings.Repeat("鞋", 300)))), maxSubjectRunes)
}

// A small archive may unpack to more than a disk holds, in rows that are no movements.
func TestUnpackedBillIsBounded(t *testing.T) {
	t.Parallel()
	endless := strings.NewReader(strings.Repeat("#\n", 1<<20))
	read := func(ctx context.Context, most int64) error {
		endless.Reset(strings.Repeat("#\n", 1<<20))
		return details.Read(&bounded{ctx: ctx, r: endless, left: most}, func(provider.Line) bool { return true })
	}
	if err := read(t.Context(), 1<<20); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a bill above its bound: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.ErrorIs(t, read(ctx, 1<<30), context.Canceled) // after the fetch was given up
}

// The documents and the gateway write these codes differently.
func TestDaysWithoutABill(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"isp.bill_not_exist", "BILL_NOT_EXIST", "NO_BILL_DATA", "isp.no_bill_data", "BILL_DATE_BEFORE_REGISTRATION"} {
		require.ErrorIs(t, refused(Reply{SubCode: code}), company.ErrNoBill)
	}
}

// A gateway by https gives no bill away by http.
func TestBillByPlainHTTPIsRefused(t *testing.T) {
	t.Parallel()
	c := New(Config{URL: "https://gateway.invalid"}, clock.System{})
	t.Cleanup(c.CloseIdleConnections)
	if err := c.readBill(t.Context(), "http://127.0.0.1:1/bill.zip", nil); err == nil || !strings.Contains(err.Error(), "https") {
		t.Errorf("the bill is downloaded: %v", err)
	}
}
