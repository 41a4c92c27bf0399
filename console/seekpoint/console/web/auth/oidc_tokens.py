"""Check an ID token, and read from it who somebody is. Pure."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any

from seekpoint.console.web.auth.user_identity import UserIdentity

if TYPE_CHECKING:
    from seekpoint.console.web.auth.oidc_settings import OidcSettings

_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"]
"""With a key that the provider alone has: neither ``none``, nor HS256, whose key the provider would have to share."""
_LEEWAY_S = 60
_ACTOR_CHARS_MAX = 200


class TokenRefused(Exception):
    """An ID token that is not valid, or whose claims give no role. The text holds nothing secret."""


def checked_claims(token: str, keys: dict[str, Any], settings: OidcSettings, nonce: str, now: float) -> dict[str, Any]:
    """Return the claims of a token that this provider made for this console and this sign-in.

    Raises ``TokenRefused``.
    """
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    required: Any = {name: {"essential": True} for name in ("sub", "exp", "iat")}
    registry = jwt.JWTClaimsRegistry(
        int(now), _LEEWAY_S, iss={"essential": True, "value": settings.issuer},
        aud={"essential": True, "value": settings.client_id}, **required,
    )  # fmt: skip
    try:
        usable = [one for one in keys["keys"] if one.get("use", "sig") == "sig" and one.get("kty") != "oct"]
        claims = jwt.decode(token, KeySet.import_key_set({"keys": usable}), algorithms=_ALGORITHMS).claims
        registry.validate(claims)
    except JoseError as error:
        raise TokenRefused(f"the ID token is not valid: {_reason(error)}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        raise TokenRefused(f"the ID token or a key cannot be read: {type(error).__name__}") from None
    if not hmac.compare_digest(str(claims.get("nonce", "")).encode("utf-8", "replace"), nonce.encode()):
        raise TokenRefused("the ID token is not valid: nonce")
    audience = claims["aud"]
    is_shared = isinstance(audience, list) and len(audience) > 1
    if (is_shared or "azp" in claims) and claims.get("azp") != settings.client_id:
        raise TokenRefused("the ID token is not valid: azp")
    return claims


def _reason(error: Any) -> str:
    claim = str(getattr(error, "claim", "") or "")
    return f"{error.error} {claim}".strip()


def identity_in(claims: dict[str, Any], settings: OidcSettings) -> UserIdentity:
    """Return who the claims name, with the highest role that they give. Raises ``TokenRefused``."""
    if "email" in (settings.actor, settings.role_claim) and claims.get("email_verified") is not True:
        raise TokenRefused("the provider does not say that the email address is verified")
    name = _claim(claims, settings.actor)
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > _ACTOR_CHARS_MAX:
        raise TokenRefused(f"the claim {settings.actor} does not name anybody")
    given = _claim(claims, settings.role_claim)
    values = {one for one in (given if isinstance(given, list) else [given]) if isinstance(one, str)}
    role = settings.role_of(values)
    if role is None:
        raise TokenRefused(f"no value of the claim {settings.role_claim} gives a role in this console")
    return UserIdentity(name=name, role=role, proof=settings.proof)


def _claim(claims: dict[str, Any], name: str) -> Any:
    """Return a claim, or one inside another: ``realm_access.roles``. A claim whose name has dots comes first."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found
