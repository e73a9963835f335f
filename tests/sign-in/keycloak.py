#!/usr/bin/env python3
"""A realm of Keycloak, and the sign-ins of its people. `keycloak.py realm API_URL TENANT` prints the realm for an import;
`keycloak.py check API_URL TENANT API_KEY KEYCLOAK_URL LOG` signs people in. scripts/check-keycloak runs both."""
import html, http.cookiejar, json, re, sys, time, urllib.error, urllib.parse, urllib.request

RULES = [{"group": "crash-team", "preset": "triager"}, {"group": "leads", "scopes": ["tenant:admin", "reports:read"]}]


def group_mapper(claim="groups", full_path=False):
    return {"name": claim, "protocol": "openid-connect", "protocolMapper": "oidc-group-membership-mapper",
            "config": {"claim.name": claim, "full.path": str(full_path).lower(), "id.token.claim": "true"}}


def audience_mapper(name):
    return {"name": "audience", "protocol": "openid-connect", "protocolMapper": "oidc-audience-mapper",
            "config": {"included.custom.audience": name, "id.token.claim": "true"}}


def role_mapper():
    return {"name": "roles", "protocol": "openid-connect", "protocolMapper": "oidc-usermodel-realm-role-mapper",
            "config": {"claim.name": "realm_access.roles", "multivalued": "true", "id.token.claim": "true"}}


def build_realm(api_url, tenant):
    start = f"{api_url}/console/sso/{tenant}"

    def client(name, *mappers, **more):
        attributes = {"pkce.code.challenge.method": "S256", "backchannel.logout.url": f"{start}/logout",
                      "backchannel.logout.session.required": "true"}
        return {"clientId": name, "protocol": "openid-connect", "secret": f"{name}-secret", "standardFlowEnabled": True,
                "redirectUris": [f"{start}/callback"], "attributes": attributes, "protocolMappers": list(mappers), **more}

    def user(name, *groups, roles=()):
        return {"username": name, "enabled": True, "firstName": name.title(), "lastName": "Ito", "email": f"{name}@example.com",
                "emailVerified": True, "groups": list(groups), "realmRoles": list(roles),
                "credentials": [{"type": "password", "value": name, "temporary": False}]}

    return {
        "realm": "crash", "enabled": True, "sslRequired": "none",
        "roles": {"realm": [{"name": "crash-triager"}]},
        "groups": [{"name": "crash-team"}, {"name": "leads"}, {"name": "eng", "subGroups": [{"name": "crash-team"}]}],
        "clients": [
            client("leaf", group_mapper()),
            client("paths", group_mapper(full_path=True)),
            client("roles", role_mapper()),
            client("audiences", group_mapper(), audience_mapper("another-service")),
            client("public", group_mapper(), publicClient=True, secret=None),
        ],
        "users": [user("robin", "/crash-team"), user("kim", "/leads"), user("nested", "/eng/crash-team"), user("none"),
                  user("role", roles=["crash-triager"])],
    }


class StaysHere(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


class Browser:
    """A browser that keeps cookies and follows redirects only if it is told to."""

    def __init__(self):
        # Browsers send Secure cookies to this machine without TLS.
        policy = http.cookiejar.DefaultCookiePolicy()
        policy.return_ok_secure = lambda cookie, request: True
        self.cookies = http.cookiejar.CookieJar(policy)
        self.opener = urllib.request.build_opener(StaysHere, urllib.request.HTTPCookieProcessor(self.cookies))

    def send(self, url, form=None, headers=None):
        data = urllib.parse.urlencode(form).encode() if form is not None else None
        request = urllib.request.Request(url, data, headers or {})
        try:
            answer = self.opener.open(request, timeout=60)
        except urllib.error.HTTPError as error:
            answer = error
        return answer.status, answer.headers.get("Location", ""), answer.read().decode(errors="replace")


class Check:
    def __init__(self, api_url, tenant, key, keycloak, log):
        self.api_url, self.tenant, self.key, self.keycloak, self.log = api_url, tenant, key, keycloak, log
        self.start = f"{api_url}/console/sso/{tenant}"
        self.issuer = f"{keycloak}/realms/crash"
        self.wrong = 0

    def expect(self, what, holds, seen=""):
        print(("right " if holds else "WRONG ") + what + ("" if holds else f": {seen}"), flush=True)
        self.wrong += not holds

    def call(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.api_url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def set_client(self, name, **more):
        body = {"issuer": self.issuer, "client_id": name, "client_secret": "" if name == "public" else f"{name}-secret",
                "rules": RULES, **more}
        return self.call("PUT", "/v1/sign-in", body)

    def admin(self, method, path, body=None):
        form = {"grant_type": "password", "client_id": "admin-cli", "username": "admin", "password": "admin"}
        url = f"{self.keycloak}/realms/master/protocol/openid-connect/token"
        with urllib.request.urlopen(url, urllib.parse.urlencode(form).encode(), timeout=60) as answer:
            token = json.load(answer)["access_token"]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self.keycloak}/admin/realms/crash{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def log_in(self, browser, url, person):
        """Follows the provider's pages. Returns the address of the callback, or the text of the page at the end."""
        status, location, page = browser.send(url)
        for _ in range(8):
            if location.startswith(self.api_url):
                return location
            if location:
                status, location, page = browser.send(location)
                continue
            form = re.search(r'<form[^>]*id="kc-form-login"[^>]*action="([^"]+)"', page)
            if not form:
                break
            status, location, page = browser.send(html.unescape(form[1]), {"username": person, "password": person})
        return f"{status} {page[:2000]}"

    def sign_in(self, person, browser=None, query=""):
        """Signs a person in. Returns the browser, the status and the page."""
        browser = browser or Browser()
        status, location, page = browser.send(self.start + query)
        for _ in range(4):
            if not location.startswith(self.issuer):
                return browser, status, page
            callback = self.log_in(browser, location, person)
            if not callback.startswith(self.api_url):
                return browser, 0, callback
            # A refused scope leads to the provider once more.
            status, location, page = browser.send(callback)
        return browser, status, page

    def is_signed_in(self, browser):
        return browser.send(f"{self.api_url}/console/groups")[0] == 200

    def failure(self):
        _, state = self.call("GET", "/v1/sign-in")
        return (state.get("failures") or [{"reason": ""}])[0]["reason"]

    def run(self):
        for client in ("leaf", "public", "audiences"):
            status, state = self.set_client(client)
            self.expect(f"{client}: the provider is set", status == 200 and "problem" not in state, state)
            browser, status, page = self.sign_in("robin")
            self.expect(f"{client}: a person is in", status == 200 and self.is_signed_in(browser), (status, page[-600:]))
        self.set_client("paths")
        _, status, page = self.sign_in("robin")
        self.expect("full paths: the page names the path", status == 403 and "the rule must name /crash-team" in page, page[-600:])
        self.expect("full paths: `show` names it, too", "/crash-team" in self.failure(), self.failure())
        self.set_client("paths", rules=[{"group": "/crash-team", "preset": "triager"}])
        self.expect("full paths: a rule with the path", self.sign_in("robin")[1] == 200)
        self.expect("full paths: a subgroup of that name is another group", self.sign_in("nested")[1] == 403)
        self.set_client("roles", group_claim="realm_access.roles", rules=[{"group": "crash-triager", "preset": "triager"}])
        self.expect("nested roles", self.sign_in("role")[1] == 200, self.failure())

        # A scope of that name for another client: the document has it, and this client may not request it.
        self.set_client("leaf")
        self.admin("POST", "/client-scopes", {"name": "groups", "protocol": "openid-connect"})
        self.set_client("leaf")
        self.expect("a scope groups of another client", self.sign_in("robin")[1] == 200, self.failure())
        self.set_client("leaf", scopes=["no-such-scope"])
        _, status, page = self.sign_in("robin")
        self.expect("a refused scope is named", status == 403 and "invalid_scope" in page and "--scope" in page, page[-600:])
        status, problem = self.call("PUT", "/v1/sign-in", {"issuer": self.issuer + "/", "client_id": "leaf", "rules": RULES})
        self.expect("a slash too many is refused", status == 400 and "issuer" in problem["detail"], problem)

        # From here on no sign-in begins twice because of that scope.
        self.set_client("leaf", scopes=["profile"])
        browser, status, page = self.sign_in("none")
        self.expect("a person without a group", status == 403 and ("is empty" in page or "no claim" in page), page[-600:])
        other = browser.send(self.start + "?account=other")[1]
        page = browser.send(other)[2] if "prompt=login" in other else other
        self.expect("someone else: Keycloak asks", "kc-form-login" in page, page[-300:])
        browser, status, page = self.sign_in("robin", query="?next=/console/groups%3Fapp%3Dx")
        self.expect("the page that was asked for", "url=/console/groups?app=x" in page, page[-600:])
        with open(self.log, errors="replace") as log:
            lines = sum("could not sign in" in line for line in log)
        self.expect("each refusal has a line in the log", lines >= 4, lines)

        tabs = Browser()
        begun = [tabs.send(self.start)[1] for _ in range(2)]
        ends = [tabs.send(self.log_in(tabs, url, "robin"))[0] for url in begun]
        self.expect("two tabs", ends == [200, 200], ends)
        self.change_keys()
        self.sign_outs()
        return self.wrong

    def change_keys(self):
        realm = self.admin("GET", "")["id"]

        def add_key(name, provider, priority, **config):
            config = {"priority": [str(priority)], "enabled": ["true"], "active": ["true"], **{key: [value] for key, value in config.items()}}
            self.admin("POST", "/components", {"name": name, "providerId": provider, "parentId": realm,
                                               "providerType": "org.keycloak.keys.KeyProvider", "config": config})

        self.sign_in("robin")
        add_key("next", "rsa-generated", 200, algorithm="RS256")
        self.expect("the first sign-in after a change of keys", self.sign_in("robin")[1] == 200, self.failure())
        for name, provider, config in (
                ("es256", "ecdsa-generated", {"ecdsaEllipticCurveKey": "P-256"}), ("es384", "ecdsa-generated", {"ecdsaEllipticCurveKey": "P-384"}),
                ("es512", "ecdsa-generated", {"ecdsaEllipticCurveKey": "P-521"}), ("eddsa", "eddsa-generated", {"eddsaEllipticCurveKey": "Ed25519"}),
                ("ecdh", "ecdh-generated", {"ecdhEllipticCurveKey": "P-256", "ecdhAlgorithm": "ECDH_ES"}),
                ("ps256", "rsa-generated", {"algorithm": "PS256"}), ("ps512", "rsa-generated", {"algorithm": "PS512"}),
                ("rs384", "rsa-generated", {"algorithm": "RS384"}), ("rs512", "rsa-generated", {"algorithm": "RS512"})):
            add_key(name, provider, 100, **config)
        client = self.admin("GET", "/clients?clientId=leaf")[0]
        for algorithm, expected in (("RS384", 200), ("RS512", 200), ("PS256", 200), ("PS512", 200), ("ES256", 200), ("ES384", 200),
                                    ("EdDSA", 200), ("ES512", 403), ("HS256", 403), ("RS256", 200)):
            client["attributes"]["id.token.signed.response.alg"] = algorithm
            self.admin("PUT", f"/clients/{client['id']}", client)
            self.set_client("leaf", scopes=["profile"])
            status = self.sign_in("robin")[1]
            self.expect(f"{algorithm}: {expected}", status == expected, (status, self.failure()))

    def sign_outs(self):
        def ends(browser):
            for _ in range(40):
                if not self.is_signed_in(browser):
                    return True
                time.sleep(0.25)
            return False

        user = self.admin("GET", "/users?exact=true&username=robin")[0]["id"]
        # Keycloak sends one notice for a user, even if there are several sessions.
        self.admin("POST", f"/users/{user}/logout")
        (robin, *_), (kim, *_) = self.sign_in("robin"), self.sign_in("kim")
        self.expect("both are in", self.is_signed_in(robin) and self.is_signed_in(kim))
        self.admin("POST", f"/users/{user}/logout")
        self.expect("a sign-out at Keycloak ends the session", ends(robin))
        self.expect("and no other", self.is_signed_in(kim))
        first, second = self.sign_in("robin")[0], self.sign_in("robin")[0]
        session = self.admin("GET", f"/users/{user}/sessions")[0]
        self.admin("DELETE", f"/sessions/{session['id']}")
        time.sleep(2)
        left = [self.is_signed_in(browser) for browser in (first, second)]
        self.expect("the end of one session ends that one", sorted(left) == [False, True], left)
        _, location, _ = kim.send(f"{self.api_url}/console/sign-out", {}, {"Sec-Fetch-Site": "same-origin"})
        page = kim.send(self.api_url + location)[2]
        link = re.search(r'href="([^"]*openid-connect/logout[^"]*)"', page)
        self.expect("after a sign-out a page leads to Keycloak's", "/signed-out?session=" in location and link is not None, (location, page[-300:]))
        if link:
            status, location, page = kim.send(html.unescape(link[1]))
            has_ended = status == 200 and ("logout" in page.lower() or "logged out" in page.lower())
            self.expect("Keycloak takes the token and signs out", "id_token_hint=" in link[1] and has_ended, (status, location))


if __name__ == "__main__":
    if sys.argv[1] == "realm":
        print(json.dumps(build_realm(*sys.argv[2:])))
    else:
        faults = Check(*sys.argv[2:]).run()
        print(f"check-keycloak: {faults} wrong" if faults else "check-keycloak: all right")
        sys.exit(1 if faults else 0)
