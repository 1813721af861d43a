from .doctor import Diagnosis as Diagnosis, doctor as doctor
from .run import audit as audit
