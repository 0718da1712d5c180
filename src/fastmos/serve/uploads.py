"""Forms with an image: read into memory, never onto disk, and decoded defensively."""

from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from fastmos.serve.limits import Limits, Refusal
from fastmos.serve.messages import BeamSize, Inside, Model, Nbest, Scores
from fastmos.serve.models import Served


class CaptionForm(BaseModel):
    """The fields of the form beside the image; as in all forms, numbers come as text."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    model: Model = None
    beam_size: BeamSize = None
    nbest: Nbest = 1
    scores: Scores = False
    inside: Inside = False


class CaptionRequest(CaptionForm):
    """The form with its image."""

    image: bytes


class InMemory(MultiPartParser):
    """A parser that writes no temporary files; the size of bodies is limited before."""

    spool_max_size = 2**62


def _openapi() -> dict[str, Any]:
    schema = CaptionForm.model_json_schema()
    image = {"type": "string", "format": "binary", "description": "JPEG, PNG, GIF, BMP, WebP, TIFF or PPM"}
    schema |= {"properties": {"image": image, **schema["properties"]}, "required": ["image"]}
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


OPENAPI = _openapi()


async def read_form(request: Request, limits: Limits) -> CaptionRequest:
    """The image and the options of a request."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise Refusal(422, "send a form (multipart/form-data) with the file as image")
    parser = InMemory(request.headers, request.stream(), max_files=1, max_fields=8, max_part_size=1000)
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError, ValueError):
        raise Refusal(400, "the form is damaged; send multipart/form-data with one file as image") from None
    fields: dict[str, Any] = dict(form.items())
    upload = fields.pop("image", None)
    if not isinstance(upload, UploadFile):
        raise Refusal(422, "'image' is missing; send the file under this name")
    data = await upload.read()
    await form.close()
    if len(data) > limits.image_bytes:
        raise Refusal(413, f"the image has {len(data):,} bytes, more than {limits.image_bytes:,}; make it smaller")
    try:
        options = CaptionForm.model_validate(fields)
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from None
    return CaptionRequest(**options.model_dump(), image=data)


def square(model: Served, data: bytes, max_pixels: int) -> Any:
    """What the model's backbone sees of an image file."""
    from fastmos.vision.images import decode_image

    return model.square(decode_image(data, max_pixels=max_pixels))
