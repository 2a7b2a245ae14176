package account_test

import (
	"net/http"
	"testing"
	"time"

	"stampede/platform/workshop/require"
)

// The link of a start makes one admin, in time, and opens no account that exists.
func TestFirstAdminByLink(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const taken, free, secret = "13800138001", "13800138002", "the first admin's password"
	b.register(taken, "a shopper's password")
	link, err := b.staff.InviteFirstAdmin(t.Context())
	if err != nil || link == "" {
		t.Fatalf("a shop without an admin invites none: %q %v", link, err)
	}
	for _, c := range []struct {
		name, link, phone string
		status            int
		code              string
	}{
		{"a late link", b.staff.InviteUntil(time.Now().Add(-time.Second)), free, http.StatusForbidden, "first-admin-link"},
		{"a link of a later time", "B" + link[1:], free, http.StatusForbidden, "first-admin-link"},
		{"nothing", "", free, http.StatusForbidden, "first-admin-link"},
		{"a shopper's phone", link, taken, http.StatusConflict, "phone-taken"},
		{"the link", link, free, http.StatusCreated, ""},
		{"the link again", link, "13800138003", http.StatusForbidden, "first-admin-link"},
	} {
		b.post("first-admin", map[string]any{"link": c.link, "phone": c.phone, "password": secret}).want(t, c.name, c.status, c.code)
	}
	admins := b.count(`SELECT count(*) FROM account.users WHERE role = 'admin' AND phone = '+86' || $1`, free)
	require.Equal(t, "admins with the phone", admins, 1)
	if again, err := b.staff.InviteFirstAdmin(t.Context()); again != "" || err != nil {
		t.Errorf("a shop with an admin invites another: %q %v", again, err)
	}
}
