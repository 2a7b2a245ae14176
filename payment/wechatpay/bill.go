package wechatpay

import (
	"context"
	"crypto/sha1" //nolint:gosec // the company's choice; the address of the bill came in a signed reply
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"stampede/payment/internal/company"
	"stampede/payment/provider"
	"stampede/platform/edge/outbound"
)

// The types of bills: the payments and the refunds that succeeded on a day.
const (
	BillSuccess = "SUCCESS"
	BillRefund  = "REFUND"
)

// BillAddress is the reply that says where a bill is.
type BillAddress struct {
	HashType    string `json:"hash_type"`
	HashValue   string `json:"hash_value"`
	DownloadURL string `json:"download_url"`
}

// The columns that are read. A bill has more, in an order that changed over the years.
const (
	colTime, colTransaction, colPayment = "交易时间", "微信订单号", "商户订单号"
	colCurrency, colAmount              = "货币种类", "订单金额"
	colRefundTime, colRefundID          = "退款成功时间", "微信退款单号"
	colRefund, colRefundAmount          = "商户退款单号", "申请退款金额"
	colRefundStatus                     = "退款状态"
	// totals begins the rows below the movements.
	totals = "总交易单数"
	// billTime is the form of its times, of China.
	billTime = "2006-01-02 15:04:05"
)

// Statement implements provider.Provider: the bill of payments, then that of refunds.
func (c *Client) Statement(ctx context.Context, d provider.Day) provider.Lines {
	return provider.LinesOf(func(pass func(provider.Line) bool) error {
		if c.now().Before(d.To) {
			return provider.ErrNotReady
		}
		for _, kind := range []string{BillSuccess, BillRefund} {
			err := c.bill(ctx, d, kind, pass)
			if errors.Is(err, company.ErrNoBill) {
				err = company.NoBill(c.now(), d)
			}
			if err != nil {
				return fmt.Errorf("wechatpay: statement: %w", err)
			}
		}
		return nil
	})
}

// bill downloads one bill. Lines are passed on as they arrive; if the file's hash is wrong
// at its end, the error says so.
func (c *Client) bill(ctx context.Context, d provider.Day, kind string, pass func(provider.Line) bool) error {
	var at BillAddress
	path := "/v3/bill/tradebill?bill_date=" + d.From.In(company.China).Format(time.DateOnly) + "&bill_type=" + kind
	if err := c.call(ctx, http.MethodGet, path, nil, &at); err != nil {
		return err
	}
	if at.HashType != "SHA1" {
		return fmt.Errorf("the bill's hash is a %s", at.HashType)
	}
	u, err := url.Parse(at.DownloadURL)
	if err != nil {
		return err
	}
	base, err := url.Parse(c.cfg.URL)
	if err != nil {
		return err
	}
	// The request carries our signature: it goes to the configured address.
	path = strings.TrimPrefix(u.RequestURI(), base.Path)
	var signing error
	return c.Bills.Stream(ctx, outbound.Request{URL: c.cfg.URL + path, Head: func(h http.Header) {
		signing = c.authorize(h, http.MethodGet, path, nil)
	}}, func(r outbound.Reply, body io.Reader) error {
		if signing != nil || r.Status != http.StatusOK {
			return errors.Join(signing, fmt.Errorf("the bill has status %d", r.Status))
		}
		sum := sha1.New() //nolint:gosec // as above
		body = io.TeeReader(body, sum)
		if err := form(kind).Read(body, pass); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, body); err != nil {
			return err
		}
		if got := hex.EncodeToString(sum.Sum(nil)); !strings.EqualFold(got, at.HashValue) {
			return errors.New("the bill is not the one that WeChat Pay announced")
		}
		return nil
	})
}

// form is how WeChat Pay writes bills. A cell begins with a backtick, so that the
// separator is a comma with a backtick: product names have commas.
func form(kind string) company.Bill {
	return company.Bill{
		Totals: totals,
		Cells: func(row string, columns int) []string {
			if columns == 0 {
				return strings.Split(row, ",")
			}
			return strings.Split(strings.TrimPrefix(row, "`"), ",`")
		},
		Line: func(cell func(string) string) (provider.Line, bool, error) { return lineOf(kind, cell) },
	}
}

// lineOf reads a row; moved is false for a refund that is not made.
func lineOf(kind string, cell func(string) string) (l provider.Line, moved bool, err error) {
	l = provider.Line{Kind: provider.Paid, Transaction: cell(colTransaction), Currency: cell(colCurrency)}
	amount, at := cell(colAmount), cell(colTime)
	if kind == BillRefund {
		if cell(colRefundStatus) != RefundSuccess {
			return l, false, nil
		}
		l.Kind, l.Transaction, amount = provider.PaidBack, cell(colRefundID), cell(colRefundAmount)
		if made := cell(colRefundTime); made != "" {
			at = made
		}
	}
	l.PaymentNo = company.OurNumber(cell(colPayment))
	if kind == BillRefund {
		l.RefundNo = company.OurNumber(cell(colRefund))
	}
	if l.Transaction == "" || l.Currency == "" {
		return l, true, errors.New("a row without transaction or currency")
	}
	if l.Amount, err = company.ParseYuan(amount); err != nil {
		return l, true, err
	}
	l.At, err = time.ParseInLocation(billTime, at, company.China)
	return l, true, err
}
